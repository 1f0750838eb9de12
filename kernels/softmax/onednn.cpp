// softmax and log_softmax by oneDNN: f32, row-major. Nothing is promised about bits.
#include "kernels/softmax/onednn.h"

#include "engine/ops/softmax.h"
#include "kernels/backends/onednn/row.h"

namespace etalon {
namespace {

template <dnnl::algorithm algo>
onednn::Described describe(const Problem& problem) {
  const auto& p = problem.params->as<SoftmaxParams>();
  const Shape& shape = problem.input(0).shape;
  const auto x = onednn::plain(onednn::dims_of(shape));
  const std::int64_t axis = p.axis < 0 ? p.axis + shape.rank() : p.axis;
  const dnnl::softmax_forward::primitive_desc pd(
      onednn::engine(), dnnl::prop_kind::forward_inference, algo, x, x, static_cast<int>(axis));
  return onednn::described<dnnl::softmax_forward>(pd, {{DNNL_ARG_SRC, x, x}},
                                                  onednn::dims_of(shape));
}

Refusal refuse(const Problem& problem) {
  const auto& p = problem.params->as<SoftmaxParams>();
  const int rank = problem.input(0).shape.rank();
  if (p.flatten && p.axis != -1 && p.axis != rank - 1) return "knows one axis, not several as one";
  return std::nullopt;
}

}  // namespace

std::span<const KernelRow> onednn_softmax_rows() {
  using dnnl::algorithm;
  static const KernelRow rows[] = {
      onednn::vendor_row<describe<algorithm::softmax_accurate>, refuse>("softmax",
                                                                        "onednn.softmax"),
      onednn::vendor_row<describe<algorithm::softmax_log>, refuse>("log_softmax",
                                                                   "onednn.log_softmax"),
  };
  return rows;
}

}  // namespace etalon
