#include "engine/ops/softmax.h"

namespace etalon {
namespace {

std::vector<TensorType> infer_softmax(const Params& params, const InferInputs& in) {
  if (!is_floating(in.dtype(0)))
    throw bad_input("x must be a floating tensor, got {}", name(in.dtype(0)));
  softmax_geometry(params.as<SoftmaxParams>(), in.shape(0));
  return {in.type(0)};
}

OpRow row(std::string_view op, std::string_view summary, OpNature nature) {
  return {.name = op,
          .summary = summary,
          .nature = nature,
          .defaults = [] { return Params(SoftmaxParams{}); },
          .infer = infer_softmax};
}

}  // namespace

SoftmaxGeometry softmax_geometry(const SoftmaxParams& params, const Shape& x) {
  if (x.rank() == 0) throw bad_input("x must have at least one axis, got a scalar");
  // Flattened, axis may also be the rank: rows of one element.
  const int axis =
      params.flatten && params.axis == x.rank() ? x.rank() : normalize_axis(params.axis, x.rank());
  if (params.flatten) return {x.product(0, axis), x.product(axis, x.rank()), 1};
  const std::int64_t inner = x.product(axis + 1, x.rank());
  return {x.product(0, axis) * inner, x[axis], inner};
}

std::span<const OpRow> softmax_ops() {
  static const OpRow rows[] = {
      row("softmax", "Exponentials along an axis, divided by their sum.", OpNature::composite),
      row("log_softmax", "Logarithm of softmax.", OpNature::composite),
      row("hardmax", "One at the first largest element along an axis, else zero.",
          OpNature::discrete),
  };
  return rows;
}

}  // namespace etalon
