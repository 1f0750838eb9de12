#include "engine/ops/normalization.h"

#include <array>
#include <limits>

namespace etalon {
namespace {

void check_floating(const InferInputs& in) {
  for (std::size_t i = 0; i < in.size(); ++i)
    if (in.has(i) && !is_floating(in.dtype(i)))
      throw bad_input("input {} must be a floating tensor, got {}", i, name(in.dtype(i)));
}

void check_channels(const InferInputs& in, std::size_t first, const Shape& expected,
                    std::span<const std::string_view> names) {
  for (std::size_t i = first; i < in.size(); ++i)
    if (in.has(i) && in.shape(i) != expected)
      throw bad_input("{} must be {}, got {}", names[i], to_string(expected),
                      to_string(in.shape(i)));
}

void check_broadcast(const InferInputs& in, std::size_t first,
                     std::span<const std::string_view> names) {
  for (std::size_t i = first; i < in.size(); ++i)
    if (in.has(i) && broadcast(in.shape(i), in.shape(0)) != in.shape(0))
      throw bad_input("{} {} does not broadcast to x {}", names[i], to_string(in.shape(i)),
                      to_string(in.shape(0)));
}

std::vector<std::string_view> affine_names() { return {"x", "scale", "bias"}; }
std::vector<std::string_view> batch_norm_names() { return {"x", "scale", "bias", "mean", "var"}; }

void check_rank(const Shape& x, int least) {
  if (x.rank() < least)
    throw bad_input("x must have at least {} axes, [N,C,spatial...], got {}", least, to_string(x));
}

std::vector<TensorType> infer_batch_norm(const Params& params, const InferInputs& in) {
  const auto& p = params.as<BatchNormParams>();
  check_floating(in);
  const Shape& x = in.shape(0);
  Shape expected;
  if (p.spatial) {
    // One axis: a single channel (ONNX since opset 9).
    expected = Shape{x.rank() == 1 && p.axis == 1 ? 1 : x[normalize_axis(p.axis, x.rank())]};
  } else {
    check_rank(x, 1);
    expected = Shape(x.dims().subspan(1));
  }
  check_channels(in, 1, expected, batch_norm_names());
  return {in.type(0)};
}

std::vector<TensorType> infer_layer_norm(const Params& params, const InferInputs& in) {
  const auto& p = params.as<LayerNormParams>();
  check_floating(in);
  check_broadcast(in, 1, affine_names());
  const Shape& x = in.shape(0);
  const int axis = normalize_axis(p.axis, x.rank());
  std::vector<TensorType> types{in.type(0)};
  if (p.statistics) {
    Shape rows = x;
    for (int i = axis; i < x.rank(); ++i) rows = rows.with_dim(i, 1);
    const DType dtype = in.dtype(0) == DType::f64 ? DType::f64 : DType::f32;
    types.insert(types.end(), 2, {dtype, rows});
  }
  return types;
}

std::vector<TensorType> infer_instance_norm(const Params&, const InferInputs& in) {
  check_floating(in);
  check_rank(in.shape(0), 2);
  check_channels(in, 1, Shape{in.shape(0)[1]}, affine_names());
  return {in.type(0)};
}

std::vector<TensorType> infer_group_norm(const Params& params, const InferInputs& in) {
  const auto& p = params.as<GroupNormParams>();
  check_floating(in);
  const Shape& x = in.shape(0);
  check_rank(x, 2);
  if (p.groups < 1 || x[1] % p.groups != 0)
    throw bad_input("{} groups do not divide the {} channels of x {}", p.groups, x[1],
                    to_string(x));
  check_channels(in, 1, Shape{p.scale_per_group ? p.groups : x[1]}, affine_names());
  return {in.type(0)};
}

std::array<bool, kMaxRank> reduced_axes(const Shape& x, const Ints& axes) {
  std::array<bool, kMaxRank> reduced{};
  for (const std::int64_t axis : axes) {
    const auto i = static_cast<std::size_t>(normalize_axis(axis, x.rank()));
    if (reduced[i]) throw bad_input("axis {} is named twice", axis);
    reduced[i] = true;
  }
  return reduced;
}

std::vector<TensorType> infer_mean_variance(const Params& params, const InferInputs& in) {
  check_floating(in);
  (void)reduced_axes(in.shape(0), params.as<MeanVarianceParams>().axes);
  return {in.type(0)};
}

std::vector<TensorType> infer_rms_norm(const Params& params, const InferInputs& in) {
  check_floating(in);
  check_broadcast(in, 1, affine_names());
  normalize_axis(params.as<RmsNormParams>().axis, in.shape(0).rank());
  return {in.type(0)};
}

std::vector<TensorType> infer_lp_norm(const Params& params, const InferInputs& in) {
  const auto& p = params.as<LpNormParams>();
  check_floating(in);
  if (!(p.p > 0) || p.p > std::numeric_limits<float>::max())
    throw bad_input("p must be positive and finite, got {}", p.p);
  if (!(p.eps >= 0)) throw bad_input("eps must not be negative, got {}", p.eps);
  (void)reduced_axes(in.shape(0), p.axes);
  return {in.type(0)};
}

std::vector<TensorType> infer_lrn(const Params& params, const InferInputs& in) {
  check_floating(in);
  check_rank(in.shape(0), 2);
  if (params.as<LrnParams>().size < 1)
    throw bad_input("size must be at least 1, got {}", params.as<LrnParams>().size);
  return {in.type(0)};
}

template <class P>
Params make() {
  return Params(P{});
}

}  // namespace

NormRows norm_rows(const Shape& x, std::span<const bool> reduced) {
  NormRows r;
  for (int axis = 0; axis < x.rank(); ++axis)
    if (!reduced[static_cast<std::size_t>(axis)] && x[axis] == 0)
      return r;  // no rows; what each would hold may be beyond all memory
  r.firsts = {0};
  r.offsets = {0};
  const auto strides = strides_of(x);
  for (int axis = 0; axis < x.rank(); ++axis) {
    std::vector<std::int64_t>& list =
        reduced[static_cast<std::size_t>(axis)] ? r.offsets : r.firsts;
    std::vector<std::int64_t> longer;
    longer.reserve(list.size() * static_cast<std::size_t>(x[axis]));
    for (const std::int64_t at : list)
      for (std::int64_t i = 0; i < x[axis]; ++i)
        longer.push_back(at + i * strides[static_cast<std::size_t>(axis)]);
    list = std::move(longer);
  }
  r.rows = static_cast<std::int64_t>(r.firsts.size());
  return r;
}

NormRows norm_rows_from(const Shape& x, std::int64_t axis) {
  bool reduced[kMaxRank] = {};
  for (int i = normalize_axis(axis, x.rank()); i < x.rank(); ++i) reduced[i] = true;
  return norm_rows(x, reduced);
}

NormRows norm_rows_over(const Shape& x, const Ints& axes) {
  return norm_rows(x, reduced_axes(x, axes));
}

NormRows norm_rows_of_groups(const Shape& x, std::int64_t groups) {
  // Without channels an instance norm has no groups.
  const Shape split{x[0], groups, groups == 0 ? 0 : x[1] / groups * x.product(2, x.rank())};
  constexpr bool reduced[] = {false, false, true};
  return norm_rows(split, reduced);
}

std::span<const OpRow> normalization_ops() {
  static const OpRow rows[] = {
      {.name = "batch_norm",
       .summary = "Normalisation by given statistics of each channel.",
       .nature = OpNature::composite,
       .min_inputs = 5,
       .max_inputs = 5,
       .defaults = make<BatchNormParams>,
       .infer = infer_batch_norm,
       .input_names = batch_norm_names},
      {.name = "layer_norm",
       .summary = "Normalisation over the last axes.",
       .nature = OpNature::composite,
       .max_inputs = 3,
       .max_outputs = 3,
       .defaults = make<LayerNormParams>,
       .infer = infer_layer_norm,
       .input_names = affine_names,
       .output_names = [] { return std::vector<std::string_view>{"y", "mean", "inv_std"}; }},
      {.name = "instance_norm",
       .summary = "Normalisation over the spatial axes of each channel.",
       .nature = OpNature::composite,
       .max_inputs = 3,
       .defaults = make<InstanceNormParams>,
       .infer = infer_instance_norm,
       .input_names = affine_names},
      {.name = "group_norm",
       .summary = "Normalisation over groups of channels.",
       .nature = OpNature::composite,
       .max_inputs = 3,
       .defaults = make<GroupNormParams>,
       .infer = infer_group_norm,
       .input_names = affine_names},
      {.name = "mean_variance_normalization",
       .summary = "Mean subtracted, divided by the standard deviation plus eps.",
       .nature = OpNature::composite,
       .per_sample = false,
       .defaults = make<MeanVarianceParams>,
       .infer = infer_mean_variance},
      {.name = "rms_norm",
       .summary = "Division by the root mean square over the last axes.",
       .nature = OpNature::composite,
       .max_inputs = 2,
       .defaults = make<RmsNormParams>,
       .infer = infer_rms_norm,
       .input_names = [] { return std::vector<std::string_view>{"x", "scale"}; }},
      {.name = "lp_norm",
       .summary = "Division by the p-norm over some axes.",
       .nature = OpNature::composite,
       .defaults = make<LpNormParams>,
       .infer = infer_lp_norm},
      {.name = "lrn",
       .summary = "Local response normalisation across channels.",
       .nature = OpNature::composite,
       .defaults = make<LrnParams>,
       .infer = infer_lrn},
  };
  return rows;
}

}  // namespace etalon
