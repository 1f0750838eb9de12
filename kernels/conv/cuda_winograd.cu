// The launches of cuda_winograd.h: transforms of inputs and weights, products, transforms of sums.
#include <cuda_runtime.h>

#include "kernels/backends/cuda/launches.h"
#include "kernels/conv/cuda_winograd.h"

namespace etalon::cuda {
namespace {

std::int64_t blocks_of(std::int64_t threads) {
  return (threads + kWinogradThreads - 1) / kWinogradThreads;
}

// The first `image_blocks` blocks transform inputs, the others weights.
template <class W>
__global__ void __launch_bounds__(kWinogradThreads)
    transform(const __grid_constant__ WinogradTask t, const __grid_constant__ typename W::Factors f,
              unsigned image_blocks) {
  __shared__ typename W::Kernels kernels;
  const int tid = static_cast<int>(threadIdx.x);
  if (blockIdx.x < image_blocks) {
    const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * kWinogradThreads + tid;
    if (thread < t.inputs()) W::input(t, f, thread);
  } else {
    const std::int64_t block = blockIdx.x - image_blocks;
    W::bring_weights(t, block, kernels, tid);
    __syncthreads();
    W::weight(t, f, block, kernels, tid);
  }
}

template <class W>
__global__ void __launch_bounds__(kWinogradThreads)
    finish(const __grid_constant__ WinogradTask t, const __grid_constant__ typename W::Factors f) {
  const std::int64_t thread =
      static_cast<std::int64_t>(blockIdx.x) * kWinogradThreads + threadIdx.x;
  if (thread < t.outputs()) W::output(t, f, thread);
}

}  // namespace

int launch_winograd(const KernelCall& call, float* memory, void* stream) {
  const Algorithm algorithm = Algorithm::parse(call.contract().algo);
  const WinogradTask t = winograd_task(call, memory);
  const auto s = static_cast<cudaStream_t>(stream);
  int code = cudaErrorInvalidValue;
  with_winograd(algorithm, [&]<class W>() {
    const auto f = winograd_factors<typename W::Number>(algorithm);
    const std::int64_t image = blocks_of(t.inputs()), all = image + t.weight_blocks();
    code = cudaSuccess;
    if (all > 0) {
      transform<W><<<static_cast<unsigned>(all), kWinogradThreads, 0, s>>>(
          t, f, static_cast<unsigned>(image));
      code = cudaGetLastError();
    }
    if (code == 0) code = launch_products(winograd_products(t, W::kCells), stream);
    if (code != 0) return;
    finish<W><<<static_cast<unsigned>(blocks_of(t.outputs())), kWinogradThreads, 0, s>>>(t, f);
    code = cudaGetLastError();
  });
  return code;
}

}  // namespace etalon::cuda
