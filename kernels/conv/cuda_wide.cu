// The launches of kernels/gemm/cuda_wide.h for conv.
#include "kernels/backends/cuda/launches.h"
#include "kernels/conv/cuda_digits.h"
#include "kernels/gemm/cuda_wide_device.h"

namespace etalon::cuda {

int launch_conv_wide(const KernelCall& call, const WideMemory& memory,
                     const UndecidedList& undecided, void* stream) {
  return launch_wide_products<WindowProducts, true>(wide_task(call, memory), undecided,
                                                    static_cast<cudaStream_t>(stream));
}

}  // namespace etalon::cuda
