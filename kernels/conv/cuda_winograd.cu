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
  const bool image = blockIdx.x < image_blocks;
  const std::int64_t thread =
      static_cast<std::int64_t>(blockIdx.x - (image ? 0 : image_blocks)) * kWinogradThreads +
      threadIdx.x;
  if (image) {
    if (thread < t.inputs()) W::input(t, f, thread);
  } else {
    if (thread < t.weights()) W::weight(t, f, thread);
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
    const std::int64_t image = blocks_of(t.inputs()), all = image + blocks_of(t.weights());
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
