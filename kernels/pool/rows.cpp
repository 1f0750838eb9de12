#include "kernels/pool/rows.h"

#include <vector>

#include "kernels/gemm/halves_row.h"
#include "kernels/pool/definition.h"
#include "kernels/pool/fast.h"
#include "kernels/pool/global.h"
#include "kernels/pool/order_rows.h"

namespace etalon {

std::span<const KernelRow> pool_rows() {
  static const KernelRow own[] = {
#if defined(__x86_64__)
      max_pool_f32_row<Isa::avx512>("max_pool.f32.avx512"),
      max_pool_f32_row<Isa::avx2>("max_pool.f32.avx2"),
      halves_row<max_pool_f32_row<Isa::avx512>, true>("max_pool.halves.avx512"),
      halves_row<max_pool_f32_row<Isa::avx2>, true>("max_pool.halves.avx2"),
      average_pool_f32_row<Isa::avx512>("avg_pool.f32.avx512"),
      average_pool_f32_row<Isa::avx2>("avg_pool.f32.avx2"),
#endif
      max_pool_scalar_row(),
      average_pool_scalar_row(),
#if defined(__x86_64__)
      average_pool_order_row<Isa::avx512>("avg_pool.order.avx512"),
      average_pool_order_row<Isa::avx2>("avg_pool.order.avx2"),
      global_average_pool_order_row<Isa::avx512>("global_avg_pool.order.avx512"),
      global_average_pool_order_row<Isa::avx2>("global_avg_pool.order.avx2"),
      lp_pool_order_row<Isa::avx512>("lp_pool.order.avx512"),
      lp_pool_order_row<Isa::avx2>("lp_pool.order.avx2"),
      global_lp_pool_order_row<Isa::avx512>("global_lp_pool.order.avx512"),
      global_lp_pool_order_row<Isa::avx2>("global_lp_pool.order.avx2"),
#endif
      definition_row<MaxPoolDefinition<false>>("max_pool.definition"),
      definition_row<MaxPoolDefinition<true>>("global_max_pool.definition"),
      definition_row<AvgPoolDefinition<false>>("avg_pool.definition"),
      definition_row<AvgPoolDefinition<true>>("global_avg_pool.definition"),
      definition_row<LpPoolDefinition<false>>("lp_pool.definition"),
      definition_row<LpPoolDefinition<true>>("global_lp_pool.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    const std::span<const KernelRow> global = global_pool_f32_rows();
    std::vector<KernelRow> all(global.begin(), global.end());
    all.push_back(average_pool_exact_row());
    all.push_back(global_average_pool_exact_row());
    all.insert(all.end(), std::begin(own), std::end(own));
    return all;
  }();
  return rows;
}

}  // namespace etalon
