#include "engine/ops/reduce.h"

#include <algorithm>

#include "engine/ops/ints_input.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;

Types infer_numbers(const Params& params, const InferInputs& in) {
  if (in.dtype(0) == DType::boolean) throw bad_input("bool cannot be added up; cast to an integer");
  return {{in.dtype(0), reduce_geometry(params.as<ReduceParams>(), in).output}};
}

Types infer_ordered(const Params& params, const InferInputs& in) {
  return {{in.dtype(0), reduce_geometry(params.as<ReduceParams>(), in).output}};
}

Types infer_floating(const Params& params, const InferInputs& in) {
  if (!is_floating(in.dtype(0)))
    throw bad_input("defined on floating types, got {}; cast x", name(in.dtype(0)));
  return infer_ordered(params, in);
}

OpRow reduction(std::string_view name, std::string_view summary,
                Types (*infer)(const Params&, const InferInputs&), OpNature nature) {
  return {.name = name,
          .summary = summary,
          .nature = nature,
          .max_inputs = 2,
          .per_sample = false,  // the batch may be among the axes
          .defaults = [] { return Params(ReduceParams{}); },
          .infer = infer,
          .input_names = [] { return std::vector<std::string_view>{"x", "axes"}; }};
}

}  // namespace

ReduceGeometry reduce_geometry(const ReduceParams& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const Ints axes = normalized_axes(ints_or(in, 1, params.axes), x.rank());
  const auto strides = strides_of(x);
  ReduceGeometry g;
  Ints kept, reduced, output;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t stride = strides[static_cast<std::size_t>(i)];
    const bool gone =
        axes.empty() ? !params.noop_with_empty_axes : std::ranges::find(axes, i) != axes.end();
    if (gone) {
      g.reduced_strides[reduced.size()] = stride;
      reduced.push_back(x[i]);
      if (params.keepdims) output.push_back(1);
    } else {
      g.kept_strides[kept.size()] = stride;
      kept.push_back(x[i]);
      output.push_back(x[i]);
    }
  }
  const auto shape = [](const Ints& dims) { return Shape(std::span<const std::int64_t>(dims)); };
  g.kept = shape(kept);
  g.reduced = shape(reduced);
  g.output = shape(output);
  return g;
}

std::span<const OpRow> reduce_ops() {
  static const OpRow rows[] = {
      reduction("reduce_sum", "Sum over axes.", infer_numbers, OpNature::sum),
      reduction("reduce_mean", "Mean over axes.", infer_numbers, OpNature::sum),
      reduction("reduce_max", "Largest over axes.", infer_ordered, OpNature::pointwise),
      reduction("reduce_min", "Smallest over axes.", infer_ordered, OpNature::pointwise),
      reduction("reduce_prod", "Product over axes.", infer_numbers, OpNature::composite),
      reduction("reduce_l1", "Sum of magnitudes over axes.", infer_numbers, OpNature::sum),
      reduction("reduce_l2", "Root of the sum of squares over axes.", infer_floating,
                OpNature::composite),
      reduction("reduce_sum_square", "Sum of squares over axes.", infer_numbers, OpNature::sum),
      reduction("reduce_log_sum", "Logarithm of the sum over axes.", infer_floating,
                OpNature::composite),
      reduction("reduce_log_sum_exp", "Logarithm of the sum of exponentials over axes.",
                infer_floating, OpNature::composite),
  };
  return rows;
}

}  // namespace etalon
