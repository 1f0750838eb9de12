#include "kernels/normalization/rows.h"

#include <vector>

#include "kernels/gemm/halves_row.h"
#include "kernels/normalization/batch_norm.h"
#include "kernels/normalization/definition.h"
#include "kernels/normalization/exact.h"
#include "kernels/normalization/lrn.h"
#include "kernels/normalization/order_rows.h"
#include "kernels/normalization/row_norm_rows.h"

namespace etalon {

std::span<const KernelRow> normalization_rows() {
  static const std::vector<KernelRow> own = {
#if defined(__x86_64__)
      batch_norm_f32_row<Isa::avx512>("batch_norm.f32.avx512"),
      batch_norm_f32_row<Isa::avx2>("batch_norm.f32.avx2"),
      halves_row<batch_norm_f32_row<Isa::avx512>>("batch_norm.halves.avx512"),
      halves_row<batch_norm_f32_row<Isa::avx2>>("batch_norm.halves.avx2"),
      lrn_f32_row<Isa::avx512>("lrn.f32.avx512"),
      lrn_f32_row<Isa::avx2>("lrn.f32.avx2"),
#endif
  };
  static const KernelRow definitions[] = {
      definition_row<BatchNormDefinition>("batch_norm.definition"),
      definition_row<RowNormDefinition<LayerNorm>>("layer_norm.definition"),
      definition_row<RowNormDefinition<InstanceNorm>>("instance_norm.definition"),
      definition_row<RowNormDefinition<GroupNorm>>("group_norm.definition"),
      definition_row<RowNormDefinition<MeanVariance>>("mean_variance_normalization.definition"),
      definition_row<RowNormDefinition<RmsNorm>>("rms_norm.definition"),
      definition_row<LpNormDefinition>("lp_norm.definition"),
      definition_row<LrnDefinition>("lrn.definition"),
  };
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all = normalization_exact_rows();
    all.insert(all.end(), row_norm_f32_rows().begin(), row_norm_f32_rows().end());
    all.insert(all.end(), std::begin(own), std::end(own));
    all.insert(all.end(), normalization_order_rows().begin(), normalization_order_rows().end());
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
