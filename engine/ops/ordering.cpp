#include "engine/ops/ordering.h"

#include "engine/ops/ints_input.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;
using Names = std::vector<std::string_view>;

Types infer_arg(const Params& params, const InferInputs& in) {
  const auto& p = params.as<ArgParams>();
  const Shape& x = in.shape(0);
  const int axis = normalize_axis(p.axis, x.rank());
  if (x[axis] == 0)
    throw bad_input("axis {} of x {} is empty and has no extremum", axis, to_string(x));
  Ints dims(x.dims().begin(), x.dims().end());
  if (p.keepdims)
    dims[static_cast<std::size_t>(axis)] = 1;
  else
    dims.erase(dims.begin() + axis);
  return {{DType::i64, Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_top_k(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TopKParams>();
  const Shape& x = in.shape(0);
  const int axis = normalize_axis(p.axis, x.rank());
  const std::int64_t k = int_or(in, 1, p.k, "k");
  if (k < 0 || k > x[axis])
    throw bad_input("k is {}; axis {} of x {} has {} elements", k, axis, to_string(x), x[axis]);
  if (in.dtype(0) == DType::boolean) throw bad_input("bool has no order; cast x");
  const Shape y = x.with_dim(axis, k);
  return {{in.dtype(0), y}, {DType::i64, y}};
}

Types infer_cum_sum(const Params& params, const InferInputs& in) {
  normalize_axis(int_or(in, 1, params.as<CumSumParams>().axis, "axis"), in.shape(0).rank());
  if (in.dtype(0) == DType::boolean) throw bad_input("bool cannot be added up; cast x");
  return {in.type(0)};
}

}  // namespace

AxisView axis_view(const Shape& shape, int axis) {
  return {shape.product(0, axis), shape[axis], shape.product(axis + 1, shape.rank())};
}

std::span<const OpRow> ordering_ops() {
  static const OpRow rows[] = {
      {.name = "arg_max",
       .summary = "Index of the largest element along an axis.",
       .nature = OpNature::discrete,
       .per_sample = false,
       .defaults = [] { return Params(ArgParams{}); },
       .infer = infer_arg},
      {.name = "arg_min",
       .summary = "Index of the smallest element along an axis.",
       .nature = OpNature::discrete,
       .per_sample = false,
       .defaults = [] { return Params(ArgParams{}); },
       .infer = infer_arg},
      {.name = "top_k",
       .summary = "The largest or smallest elements along an axis, with their indices.",
       .nature = OpNature::movement,
       .max_inputs = 2,
       .min_outputs = 2,
       .max_outputs = 2,
       .per_sample = false,
       .defaults = [] { return Params(TopKParams{}); },
       .infer = infer_top_k,
       .input_names = [] { return Names{"x", "k"}; },
       .output_names = [] { return Names{"values", "indices"}; }},
      {.name = "cum_sum",
       .summary = "Running sums along an axis.",
       .nature = OpNature::sum,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = [] { return Params(CumSumParams{}); },
       .infer = infer_cum_sum,
       .input_names = [] { return Names{"x", "axis"}; }},
      {.name = "cum_prod",
       .summary = "Running products along an axis.",
       .nature = OpNature::composite,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = [] { return Params(CumSumParams{}); },
       .infer = infer_cum_sum,
       .input_names = [] { return Names{"x", "axis"}; }},
  };
  return rows;
}

}  // namespace etalon
