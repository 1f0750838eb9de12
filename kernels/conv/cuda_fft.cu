// The launches of cuda_fft.h: phases of a block with barriers between them.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/backends/cuda/block_threads.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/conv/cuda_fft.h"

namespace etalon::cuda {
namespace {

template <FftPass pass>
__global__ void __launch_bounds__(kFftThreads) transform(const __grid_constant__ FftTask t) {
  __shared__ FftShared shared;
  FftBlock<pass>::run(t, blockIdx.x, shared, BlockThreads{});
}

__global__ void __launch_bounds__(kFftThreads) multiply(const __grid_constant__ FftTask t) {
  const std::int64_t count = fft_products(t),
                     step = static_cast<std::int64_t>(gridDim.x) * kFftThreads;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kFftThreads + threadIdx.x;
       i < count; i += step)
    fft_product(t, i);
}

template <FftPass pass>
int launch(const FftTask& t, cudaStream_t stream) {
  const std::int64_t blocks = fft_lines(t, pass).blocks();
  if (blocks == 0) return cudaSuccess;
  if (blocks > INT32_MAX) return cudaErrorInvalidConfiguration;
  transform<pass><<<static_cast<unsigned>(blocks), kFftThreads, 0, stream>>>(t);
  return cudaGetLastError();
}

}  // namespace

int launch_fft(const KernelCall& call, const FftMemory& memory, void* stream) {
  const FftTask t = fft_task(call, memory);
  const auto s = static_cast<cudaStream_t>(stream);
  int code = launch<FftPass::kernel_rows>(t, s);
  if (code == 0) code = launch<FftPass::image_rows>(t, s);
  if (code == 0 && t.t.y.size > 1) {
    code = launch<FftPass::kernel_columns>(t, s);
    if (code == 0) code = launch<FftPass::image_columns>(t, s);
  }
  if (code == 0) {
    const auto blocks = std::min<std::int64_t>((fft_products(t) + kFftThreads - 1) / kFftThreads,
                                               std::int64_t{1} << 20);
    multiply<<<static_cast<unsigned>(blocks), kFftThreads, 0, s>>>(t);
    code = cudaGetLastError();
  }
  if (code == 0 && t.t.y.size > 1) code = launch<FftPass::sum_columns>(t, s);
  if (code == 0) code = launch<FftPass::output>(t, s);
  return code;
}

}  // namespace etalon::cuda
