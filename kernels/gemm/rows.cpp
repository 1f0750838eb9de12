#include "kernels/gemm/rows.h"

#include "kernels/gemm/definition.h"

namespace etalon {

std::span<const KernelRow> gemm_rows() {
  static const KernelRow rows[] = {
      definition_row<GemmDefinition>("gemm.definition"),
  };
  return rows;
}

}  // namespace etalon
