// batch_norm, layer_norm and lrn by oneDNN: f32. Nothing is promised about bits.
#include "kernels/normalization/onednn.h"

#include "engine/ops/normalization.h"
#include "kernels/backends/onednn/row.h"

namespace etalon {
namespace {

using dnnl::normalization_flags;
using onednn::Lies;

onednn::Operation::Operand same(int arg, const Shape& shape) {
  const auto desc = onednn::plain(onednn::dims_of(shape));
  return {arg, desc, desc};
}

template <Lies how>
onednn::Described batch_norm(const Problem& problem) {
  const Shape& shape = problem.input(0).shape;
  const auto x = onednn::lie(shape, how);
  const dnnl::batch_normalization_forward::primitive_desc pd(
      onednn::engine(), dnnl::prop_kind::forward_inference, x, x,
      problem.params->as<BatchNormParams>().eps,
      normalization_flags::use_global_stats | normalization_flags::use_scale |
          normalization_flags::use_shift);
  return onednn::described<dnnl::batch_normalization_forward>(
      pd,
      {{DNNL_ARG_SRC, onednn::plain(onednn::dims_of(shape)), x},
       same(DNNL_ARG_SCALE, problem.input(1).shape),
       same(DNNL_ARG_SHIFT, problem.input(2).shape),
       same(DNNL_ARG_MEAN, problem.input(3).shape),
       same(DNNL_ARG_VARIANCE, problem.input(4).shape)},
      onednn::dims_of(shape));
}

template <Lies how>
Refusal refuse_batch_norm(const Problem& problem) {
  const auto& p = problem.params->as<BatchNormParams>();
  if (p.axis != 1 || !p.spatial) return "knows channels on axis 1";
  return how == Lies::blocked ? onednn::refuse_blocks(problem) : std::nullopt;
}

onednn::Described layer_norm(const Problem& problem) {
  const Shape& shape = problem.input(0).shape;
  auto flags = normalization_flags::use_scale;
  if (problem.has(2)) flags |= normalization_flags::use_shift;
  const auto x = onednn::plain(onednn::dims_of(shape));
  const dnnl::layer_normalization_forward::primitive_desc pd(
      onednn::engine(), dnnl::prop_kind::forward_inference, x, x,
      problem.params->as<LayerNormParams>().eps, flags);
  std::vector<onednn::Operation::Operand> inputs{same(DNNL_ARG_SRC, shape),
                                                 same(DNNL_ARG_SCALE, problem.input(1).shape)};
  if (problem.has(2)) inputs.push_back(same(DNNL_ARG_SHIFT, problem.input(2).shape));
  return onednn::described<dnnl::layer_normalization_forward>(pd, std::move(inputs),
                                                              onednn::dims_of(shape));
}

Refusal refuse_layer_norm(const Problem& problem) {
  const auto& p = problem.params->as<LayerNormParams>();
  const int rank = problem.input(0).shape.rank();
  if ((p.axis != -1 && p.axis != rank - 1) || p.statistics || rank < 2)
    return "normalises the last axis and gives no statistics";
  if (!problem.has(1)) return "wants a scale";
  return std::nullopt;
}

template <Lies how>
onednn::Described lrn(const Problem& problem) {
  const auto& p = problem.params->as<LrnParams>();
  const Shape& shape = problem.input(0).shape;
  const auto x = onednn::lie(shape, how);
  const float alpha = p.alpha_divided ? p.alpha : p.alpha * static_cast<float>(p.size);
  const dnnl::lrn_forward::primitive_desc pd(onednn::engine(), dnnl::prop_kind::forward_inference,
                                             dnnl::algorithm::lrn_across_channels, x, x, p.size,
                                             alpha, p.beta, p.bias);
  return onednn::described<dnnl::lrn_forward>(
      pd, {{DNNL_ARG_SRC, onednn::plain(onednn::dims_of(shape)), x}}, onednn::dims_of(shape));
}

template <Lies how>
Refusal refuse_lrn(const Problem& problem) {
  if (problem.params->as<LrnParams>().size % 2 == 0) return "takes an odd number of channels";
  return how == Lies::blocked ? onednn::refuse_blocks(problem) : std::nullopt;
}

}  // namespace

std::span<const KernelRow> onednn_normalization_rows() {
  using onednn::vendor_row;
  constexpr Lies plain = Lies::row_major, blocked = Lies::blocked;
  static const KernelRow rows[] = {
      vendor_row<batch_norm<plain>, refuse_batch_norm<plain>>("batch_norm", "onednn.batch_norm"),
      vendor_row<batch_norm<blocked>, refuse_batch_norm<blocked>>("batch_norm",
                                                                  "onednn.batch_norm.nChw16c"),
      vendor_row<layer_norm, refuse_layer_norm>("layer_norm", "onednn.layer_norm"),
      vendor_row<lrn<plain>, refuse_lrn<plain>>("lrn", "onednn.lrn"),
      vendor_row<lrn<blocked>, refuse_lrn<blocked>>("lrn", "onednn.lrn.nChw16c"),
  };
  return rows;
}

}  // namespace etalon
