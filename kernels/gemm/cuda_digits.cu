// The launches of cuda_digits.h for gemm and matmul.
#include "kernels/backends/cuda/block_threads.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/gemm/cuda_digits_device.h"

namespace etalon::cuda {
namespace {

template <bool right>
__global__ void __launch_bounds__(kDigitPackThreads) cut(const __grid_constant__ DigitTask t) {
  __shared__ DigitPackShared shared;
  digit_pack(t, right ? t.b : t.a, blockIdx.x, shared, BlockThreads{});
}

}  // namespace

int launch_digits(const KernelCall& call, const DigitMemory& memory, const UndecidedList& open,
                  const UndecidedList& undecided, void* stream) {
  const DigitTask t = digit_task(call, memory);
  const auto s = static_cast<cudaStream_t>(stream);
  cudaError_t code = cudaSuccess;
  cut<false><<<static_cast<unsigned>(t.pack_blocks(t.a)), kDigitPackThreads, 0, s>>>(t);
  if (code = cudaGetLastError(); code != cudaSuccess) return code;
  cut<true><<<static_cast<unsigned>(t.pack_blocks(t.b)), kDigitPackThreads, 0, s>>>(t);
  if (code = cudaGetLastError(); code != cudaSuccess) return code;
  return launch_products<MatrixProducts>(t, open, undecided, s);
}

}  // namespace etalon::cuda
