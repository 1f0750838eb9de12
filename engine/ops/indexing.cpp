#include "engine/ops/indexing.h"

#include <algorithm>
#include <cmath>

#include "engine/numerics/element.h"
#include "engine/ops/ints_input.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;
using Names = std::vector<std::string_view>;

Shape make_shape(const Ints& dims) { return Shape(std::span<const std::int64_t>(dims)); }

void require_indices(const InferInputs& in, std::size_t i) {
  if (in.dtype(i) != DType::i64 && in.dtype(i) != DType::i32)
    throw bad_input("indices must be i64 or i32, got {}; cast them", name(in.dtype(i)));
}

Types infer_gather(const Params& params, const InferInputs& in) {
  require_indices(in, 1);
  const Shape &x = in.shape(0), &indices = in.shape(1);
  const int axis = normalize_axis(params.as<GatherParams>().axis, x.rank());
  Ints dims(x.dims().begin(), x.dims().begin() + axis);
  dims.insert(dims.end(), indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
  return {{in.dtype(0), make_shape(dims)}};
}

void require_within(const Shape& x, const Shape& indices, int axis) {
  if (indices.rank() != x.rank())
    throw bad_input("indices {} must have the rank of x {}", to_string(indices), to_string(x));
  for (int i = 0; i < x.rank(); ++i)
    if (i != axis && indices[i] > x[i])
      throw bad_input("indices {} reach beyond x {} on axis {}", to_string(indices), to_string(x),
                      i);
}

Types infer_gather_elements(const Params& params, const InferInputs& in) {
  require_indices(in, 1);
  const Shape& x = in.shape(0);
  require_within(x, in.shape(1), normalize_axis(params.as<GatherParams>().axis, x.rank()));
  return {{in.dtype(0), in.shape(1)}};
}

Types infer_gather_nd(const Params& params, const InferInputs& in) {
  require_indices(in, 1);
  return {{in.dtype(0),
           nd_geometry(in.shape(0), in.shape(1), params.as<GatherNdParams>().batch_dims).output}};
}

void require_updates(const InferInputs& in, const Shape& expected, ScatterReduction reduction) {
  require_indices(in, 1);
  if (in.dtype(2) != in.dtype(0))
    throw bad_input("updates are {} and x {}; cast one", name(in.dtype(2)), name(in.dtype(0)));
  if (in.shape(2) != expected)
    throw bad_input("updates must be {}, got {}", to_string(expected), to_string(in.shape(2)));
  if (reduction != ScatterReduction::none && in.dtype(0) == DType::boolean)
    throw bad_input("bool has no reduction here; cast x and updates");
}

Types infer_scatter_elements(const Params& params, const InferInputs& in) {
  const auto& p = params.as<ScatterElementsParams>();
  require_within(in.shape(0), in.shape(1), normalize_axis(p.axis, in.shape(0).rank()));
  require_updates(in, in.shape(1), p.reduction);
  return {in.type(0)};
}

Types infer_scatter_nd(const Params& params, const InferInputs& in) {
  require_updates(in, nd_geometry(in.shape(0), in.shape(1), 0).output,
                  params.as<ScatterNdParams>().reduction);
  return {in.type(0)};
}

Types infer_one_hot(const Params& params, const InferInputs& in) {
  const Shape& indices = in.shape(0);
  const Tensor& depth = in.constant(1);
  if (depth.numel() != 1)
    throw bad_input("depth must be one number, got {}", to_string(depth.type()));
  const double d = load_as_double(depth, 0);
  if (!(d >= 0 && d <= 0x1p40)) throw bad_input("depth is {}; it must be 0 or more", d);
  if (in.shape(2) != Shape{2})
    throw bad_input("values must be [off, on], got {}", to_string(in.type(2)));
  const int axis = normalize_axis(params.as<OneHotParams>().axis, indices.rank() + 1);
  Ints dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.begin() + axis, static_cast<std::int64_t>(d));
  return {{in.dtype(2), make_shape(dims)}};
}

Types infer_shape(const Params& params, const InferInputs& in) {
  const auto [begin, end] = shape_range(params.as<ShapeParams>(), in.shape(0).rank());
  return {{DType::i64, Shape{end - begin}}};
}

Types infer_size(const Params&, const InferInputs& in) {
  in.type(0);
  return {{DType::i64, Shape{}}};
}

Types infer_range(const Params&, const InferInputs& in) {
  for (std::size_t i = 0; i < 3; ++i) {
    if (in.dtype(i) != in.dtype(0))
      throw bad_input("start is {} and input {} {}; cast one", name(in.dtype(0)), i,
                      name(in.dtype(i)));
    if (in.shape(i).numel() != 1)
      throw bad_input("input {} must be one element, got {}", i, to_string(in.type(i)));
  }
  if (in.dtype(0) == DType::boolean) throw bad_input("bool has no range; cast the bounds");
  return {{in.dtype(0), Shape{range_count(in.constant(0), in.constant(1), in.constant(2))}}};
}

Types infer_constant_of_shape(const Params&, const InferInputs& in) {
  if (in.has(1) && in.shape(1).numel() != 1)
    throw bad_input("the value must be one element, got {}", to_string(in.type(1)));
  return {{in.has(1) ? in.dtype(1) : DType::f32, make_shape(to_int64_values(in.constant(0)))}};
}

Types infer_eye_like(const Params& params, const InferInputs& in) {
  if (in.shape(0).rank() != 2)
    throw bad_input("x must be a matrix, got {}", to_string(in.shape(0)));
  const std::string& dtype = params.as<EyeLikeParams>().dtype;
  return {{dtype.empty() ? in.dtype(0) : parse_dtype(dtype), in.shape(0)}};
}

Types infer_non_zero(const Params&, const InferInputs& in) {
  const Tensor& x = in.constant(0);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) count += load_as_double(x, i) != 0 ? 1 : 0;
  return {{DType::i64, Shape{x.shape().rank(), count}}};
}

template <class P>
Params defaults() {
  return Params(P{});
}

Names gather_names() { return {"x", "indices"}; }
Names scatter_names() { return {"x", "indices", "updates"}; }

}  // namespace

std::pair<int, int> shape_range(const ShapeParams& params, int rank) {
  const auto place = [&](std::int64_t v) {
    return static_cast<int>(std::clamp<std::int64_t>(v < 0 ? v + rank : v, 0, rank));
  };
  const int begin = place(params.start), end = place(params.end);
  return {begin, std::max(begin, end)};
}

NdGeometry nd_geometry(const Shape& x, const Shape& indices, std::int64_t batch_dims) {
  if (x.rank() < 1 || indices.rank() < 1)
    throw bad_input("x {} and indices {} must have an axis or more", to_string(x),
                    to_string(indices));
  if (batch_dims < 0 || batch_dims >= std::min(x.rank(), indices.rank()))
    throw bad_input("batch_dims is {}; x {} and indices {} share fewer axes", batch_dims,
                    to_string(x), to_string(indices));
  const int batch = static_cast<int>(batch_dims);
  for (int i = 0; i < batch; ++i)
    if (x[i] != indices[i])
      throw bad_input("batch axis {} is {} in x and {} in indices", i, x[i], indices[i]);
  const std::int64_t depth = indices[indices.rank() - 1];
  if (depth > x.rank() - batch || depth < 0)
    throw bad_input("indices {} hold {} coordinates, x {} has {} axes after the batch",
                    to_string(indices), depth, to_string(x), x.rank() - batch);
  NdGeometry g;
  g.batch_dims = batch;
  g.depth = static_cast<int>(depth);
  g.count = indices.product(0, indices.rank() - 1);
  g.block = x.product(batch + g.depth, x.rank());
  Ints dims(indices.dims().begin(), indices.dims().end() - 1);
  dims.insert(dims.end(), x.dims().begin() + batch + g.depth, x.dims().end());
  g.output = make_shape(dims);
  return g;
}

std::int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta) {
  constexpr auto kLimit = std::int64_t{1} << 48;
  if (!is_floating(start.dtype())) {
    return visit_dtype(start.dtype(), [&](auto zero) -> std::int64_t {
      using T = decltype(zero);
      if constexpr (std::is_integral_v<T>) {
        __extension__ using int128 = __int128;
        const int128 a = start.data<T>()[0], b = limit.data<T>()[0], d = delta.data<T>()[0];
        if (d == 0) throw bad_input("the delta of a range is 0");
        const int128 span = d > 0 ? b - a : a - b, step = d > 0 ? d : -d;
        if (span <= 0) return 0;
        const int128 n = (span + step - 1) / step;
        if (n > kLimit) throw bad_input("a range of more than 2^48 elements");
        return static_cast<std::int64_t>(n);
      } else {
        return 0;
      }
    });
  }
  const double a = load_as_double(start, 0), b = load_as_double(limit, 0),
               d = load_as_double(delta, 0);
  if (d == 0 || !is_finite(a) || !is_finite(b) || !is_finite(d))
    throw bad_input("a range from {} to {} by {} has no count", a, b, d);
  const double q = std::ceil((b - a) / d);
  if (!(q > 0)) return 0;
  if (!(q < static_cast<double>(kLimit))) throw bad_input("a range of more than 2^48 elements");
  // The quotient was rounded: settle by the sign of start + n*delta - limit, of which fma rounds
  // only the last step and so keeps the sign, as far as limit - start is exact.
  auto n = static_cast<std::int64_t>(q);
  const auto before = [&](std::int64_t i) {
    const TwoDoubles span = two_sum(b, -a);
    const double r = fma_f64(static_cast<double>(i), d, -span.value);
    const double gap = r == 0 ? -span.error : r;
    return d > 0 ? gap < 0 : gap > 0;
  };
  while (n > 0 && !before(n - 1)) --n;
  while (before(n)) ++n;
  return n;
}

std::span<const OpRow> indexing_ops() {
  static const OpRow rows[] = {
      {.name = "gather",
       .summary = "Takes the entries that indices name along an axis; an embedding.",
       .nature = OpNature::movement,
       .min_inputs = 2,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<GatherParams>,
       .infer = infer_gather,
       .input_names = gather_names},
      {.name = "gather_elements",
       .summary = "Takes single elements along an axis.",
       .nature = OpNature::movement,
       .min_inputs = 2,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<GatherParams>,
       .infer = infer_gather_elements,
       .input_names = gather_names},
      {.name = "gather_nd",
       .summary = "Takes the blocks that coordinates name.",
       .nature = OpNature::movement,
       .min_inputs = 2,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<GatherNdParams>,
       .infer = infer_gather_nd,
       .input_names = gather_names},
      {.name = "scatter_elements",
       .summary = "Writes, or folds, single elements into a copy of x.",
       .nature = OpNature::sum,
       .min_inputs = 3,
       .max_inputs = 3,
       .per_sample = false,
       .defaults = defaults<ScatterElementsParams>,
       .infer = infer_scatter_elements,
       .input_names = scatter_names},
      {.name = "scatter_nd",
       .summary = "Writes, or folds, blocks at coordinates into a copy of x.",
       .nature = OpNature::sum,
       .min_inputs = 3,
       .max_inputs = 3,
       .per_sample = false,
       .defaults = defaults<ScatterNdParams>,
       .infer = infer_scatter_nd,
       .input_names = scatter_names},
      {.name = "one_hot",
       .summary = "The value `on` at each index along a new axis, `off` elsewhere.",
       .nature = OpNature::movement,
       .min_inputs = 3,
       .max_inputs = 3,
       .defaults = defaults<OneHotParams>,
       .infer = infer_one_hot,
       .input_names = [] { return Names{"indices", "depth", "values"}; }},
      {.name = "shape",
       .summary = "The extents of a tensor.",
       .nature = OpNature::discrete,
       .per_sample = false,
       .defaults = defaults<ShapeParams>,
       .infer = infer_shape},
      {.name = "size",
       .summary = "The number of elements.",
       .nature = OpNature::discrete,
       .per_sample = false,
       .infer = infer_size},
      {.name = "range",
       .summary = "start, start + delta, ... before limit.",
       .nature = OpNature::pointwise,
       .min_inputs = 3,
       .max_inputs = 3,
       .per_sample = false,
       .infer = infer_range,
       .input_names = [] { return Names{"start", "limit", "delta"}; }},
      {.name = "constant_of_shape",
       .summary = "A tensor of one value.",
       .nature = OpNature::movement,
       .max_inputs = 2,
       .per_sample = false,
       .infer = infer_constant_of_shape,
       .input_names = [] { return Names{"shape", "value"}; }},
      {.name = "eye_like",
       .summary = "Ones on a diagonal.",
       .nature = OpNature::movement,
       .per_sample = false,
       .defaults = defaults<EyeLikeParams>,
       .infer = infer_eye_like},
      {.name = "non_zero",
       .summary = "Coordinates of the elements that are not zero.",
       .nature = OpNature::discrete,
       .per_sample = false,
       .infer = infer_non_zero},
  };
  return rows;
}

}  // namespace etalon
