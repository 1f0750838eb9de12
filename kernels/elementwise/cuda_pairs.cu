// The launch of cuda_pairs.h.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/elementwise/cuda_pairs.h"

namespace etalon::cuda {
namespace {

template <F32Op Op>
__global__ void __launch_bounds__(kPairThreads) pairs(const __grid_constant__ PairTask t) {
  run_pairs<Op>(t, blockIdx.x * kPairThreads + threadIdx.x);
}

}  // namespace

int launch_pairs(const KernelCall& call, void* stream) {
  const PairTask t = pair_task(call);
  with_pair_operation(t.op, [&]<F32Op Op>() {
    pairs<Op><<<(t.threads() + kPairThreads - 1) / kPairThreads, kPairThreads, 0,
                static_cast<cudaStream_t>(stream)>>>(t);
  });
  return cudaGetLastError();
}

}  // namespace etalon::cuda
