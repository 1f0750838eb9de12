#include "kernels/gemm/rows.h"

#include "kernels/gemm/definition.h"
#include "kernels/gemm/exact.h"
#include "kernels/gemm/fast.h"
#include "kernels/gemm/halves_row.h"
#include "kernels/gemm/order_rows.h"
#include "kernels/gemm/pairs.h"

namespace etalon {

void run_gemm_definition(const KernelCall& call, std::span<const std::int64_t> outputs) {
  run_definition<GemmDefinition>(call, outputs);
}

std::span<const KernelRow> gemm_rows() {
  static const KernelRow rows[] = {
#if defined(__x86_64__)
      gemm_f32_row<Isa::avx512>("gemm.f32.avx512.14x32"),
      gemm_f32_row<Isa::avx2>("gemm.f32.avx2.6x16"),
      gemm_exact_row<Isa::amx>("gemm.exact.amx"),
      gemm_exact_row<Isa::avx512>("gemm.exact.avx512.14x16"),
      gemm_exact_row<Isa::avx2>("gemm.exact.avx2.6x8"),
      gemm_pairs_row("gemm.bf16.avx512.14x32"),
      halves_row<gemm_f32_row<Isa::avx512>>("gemm.halves.avx512.14x32"),
      halves_row<gemm_f32_row<Isa::avx2>>("gemm.halves.avx2.6x16"),
      gemm_order_row<Isa::avx512>("gemm.order.avx512"),
      gemm_order_row<Isa::avx2>("gemm.order.avx2"),
#endif
      definition_row<GemmDefinition>("gemm.definition"),
  };
  return rows;
}

}  // namespace etalon
