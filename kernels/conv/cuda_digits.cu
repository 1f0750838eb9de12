// The launches of cuda_digits.h.
#include "kernels/backends/cuda/block_threads.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/conv/cuda_digits.h"
#include "kernels/gemm/cuda_digits_device.h"

namespace etalon::cuda {
namespace {

__global__ void __launch_bounds__(kDigitPackThreads) top(const __grid_constant__ ConvDigitTask t) {
  __shared__ DigitPackShared shared;
  // Of integers: the largest is the same whoever comes first.
  conv_digit_top(t, blockIdx.x, shared, BlockThreads{},
                 [&](std::int64_t line, std::int32_t bits) { atomicMax(t.tops + line, bits); });
}

__global__ void __launch_bounds__(kDigitPackThreads)
    cut_pixels(const __grid_constant__ ConvDigitTask t) {
  __shared__ DigitPackShared shared;
  conv_digit_cut(t, blockIdx.x, shared, BlockThreads{});
}

__global__ void __launch_bounds__(kDigitPackThreads)
    cut_weights(const __grid_constant__ ConvDigitTask t) {
  __shared__ DigitPackShared shared;
  conv_digit_weights(t, blockIdx.x, shared, BlockThreads{});
}

__global__ void __launch_bounds__(kDigitPackThreads)
    norms(const __grid_constant__ ConvDigitTask t) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kDigitPackThreads + threadIdx.x;
  if (i < t.groups * t.p.t.n) conv_digit_norm(t, i);
}

}  // namespace

int launch_conv_digits(const KernelCall& call, const ConvDigitMemory& memory,
                       const UndecidedList& open, const UndecidedList& undecided, void* stream) {
  const ConvDigitTask t = conv_digit_task(call, memory);
  const auto s = static_cast<cudaStream_t>(stream);
  cudaError_t code =
      cudaMemsetAsync(t.tops, 0, static_cast<std::size_t>(conv_digit_top_bytes(t)), s);
  if (code != cudaSuccess) return code;
  const auto launch = [&](auto* kernel, std::int64_t blocks) {
    if (code != cudaSuccess) return;
    kernel<<<static_cast<unsigned>(blocks), kDigitPackThreads, 0, s>>>(t);
    code = cudaGetLastError();
  };
  launch(top, t.lines() * t.top_parts());
  launch(cut_pixels, t.lines() * t.cut_parts());
  launch(cut_weights, t.p.pack_blocks(t.p.a));
  launch(norms, (t.groups * t.p.t.n + kDigitPackThreads - 1) / kDigitPackThreads);
  return code != cudaSuccess ? code : launch_products<WindowProducts>(t, open, undecided, s);
}

}  // namespace etalon::cuda
