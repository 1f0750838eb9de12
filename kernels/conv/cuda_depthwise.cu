// The launch of cuda_depthwise.h.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/conv/cuda_depthwise.h"

namespace etalon::cuda {
namespace {

template <int Kernel>
__global__ void __launch_bounds__(256) depthwise(const __grid_constant__ DepthwiseTask t) {
  run_depthwise<Kernel>(t, blockIdx.x, static_cast<int>(threadIdx.x));
}

}  // namespace

int launch_depthwise(const KernelCall& call, void* stream) {
  const DepthwiseTask t = depthwise_task(call);
  with_depthwise_kernel(t, [&]<int Kernel>() {
    depthwise<Kernel>
        <<<t.planes * t.parts(), t.threads(), 0, static_cast<cudaStream_t>(stream)>>>(t);
  });
  return cudaGetLastError();
}

}  // namespace etalon::cuda
