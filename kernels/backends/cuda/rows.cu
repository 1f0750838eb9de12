#include "kernels/backends/cuda/definition_kernel.cuh"
#include "kernels/backends/cuda/rows.h"
#include "kernels/conv/definition.h"
#include "kernels/gemm/definition.h"

namespace etalon::cuda {

std::span<const KernelRow> definition_rows() {
  static const KernelRow rows[] = {
      definition_row<ConvDefinition>("conv.cuda.definition"),
      definition_row<GemmDefinition>("gemm.cuda.definition"),
  };
  return rows;
}

}  // namespace etalon::cuda
