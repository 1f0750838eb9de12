// The launches of cuda_wide.h for gemm and matmul.
#include "kernels/backends/cuda/launches.h"
#include "kernels/gemm/cuda_wide_device.h"

namespace etalon::cuda {

int launch_wide(const KernelCall& call, const WideMemory& memory, const UndecidedList& undecided,
                void* stream) {
  return launch_wide_products<MatrixProducts, false>(wide_task(call, memory), undecided,
                                                     static_cast<cudaStream_t>(stream));
}

}  // namespace etalon::cuda
