#include "engine/ops/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "engine/ops/ints_input.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;

Types same_as_input(const Params&, const InferInputs& in) { return {in.type(0)}; }

Types infer_reshape(const Params& params, const InferInputs& in) {
  const auto& p = params.as<ReshapeParams>();
  const Shape& x = in.shape(0);
  Ints dims = ints_or(in, 1, p.shape);
  std::int64_t known = 1;
  int free_axis = -1;
  bool zero = false;
  for (std::size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 0 && !p.allowzero) {
      if (static_cast<int>(i) >= x.rank())
        throw bad_input("shape[{}] is 0 (copy the extent), but x {} has no axis {}", i,
                        to_string(x), i);
      dims[i] = x[static_cast<int>(i)];
    }
    if (dims[i] == -1) {
      if (free_axis >= 0) throw bad_input("shape [{}] has more than one -1", fmt::join(dims, ","));
      free_axis = static_cast<int>(i);
    } else if (dims[i] < 0) {
      throw bad_input("shape [{}] has the extent {}", fmt::join(dims, ","), dims[i]);
    } else {
      zero |= dims[i] == 0;
      known = checked_mul(known, dims[i]);
    }
  }
  if (free_axis >= 0) {
    if (zero || x.numel() % known != 0)
      throw bad_input("shape [{}] leaves no extent for -1: x {} has {} elements",
                      fmt::join(dims, ","), to_string(x), x.numel());
    dims[static_cast<std::size_t>(free_axis)] = x.numel() / known;
  }
  const Shape y{std::span<const std::int64_t>(dims)};
  if (y.numel() != x.numel())
    throw bad_input("x {} with {} elements cannot take the shape {} of {}", to_string(x), x.numel(),
                    to_string(y), y.numel());
  return {{in.dtype(0), y}};
}

Types infer_flatten(const Params& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const std::int64_t axis = params.as<FlattenParams>().axis;
  if (axis < -x.rank() || axis > x.rank())
    throw bad_input("axis {} is outside x {}; use {} to {}", axis, to_string(x), -x.rank(),
                    x.rank());
  const int a = static_cast<int>(axis < 0 ? axis + x.rank() : axis);
  return {{in.dtype(0), Shape{x.product(0, a), x.product(a, x.rank())}}};
}

Types infer_squeeze(const Params& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const Ints axes = normalized_axes(ints_or(in, 1, params.as<AxesParams>().axes), x.rank());
  for (const std::int64_t a : axes)
    if (x[static_cast<int>(a)] != 1)
      throw bad_input("axis {} of x {} has the extent {} and cannot be dropped", a, to_string(x),
                      x[static_cast<int>(a)]);
  Ints dims;
  for (int i = 0; i < x.rank(); ++i)
    if (axes.empty() ? x[i] != 1 : std::ranges::find(axes, i) == axes.end()) dims.push_back(x[i]);
  return {{in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_unsqueeze(const Params& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const Ints given = ints_or(in, 1, params.as<AxesParams>().axes);
  if (given.size() > kMaxRank)
    throw bad_input("{} new axes are beyond the {} supported here", given.size(), kMaxRank);
  const int rank = x.rank() + static_cast<int>(given.size());
  const Ints axes = normalized_axes(given, rank);
  Ints dims;
  for (int i = 0, from = 0; i < rank; ++i)
    dims.push_back(std::ranges::find(axes, i) == axes.end() ? x[from++] : 1);
  return {{in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_transpose(const Params& params, const InferInputs& in) {
  Ints dims;
  for (const std::int64_t a : transpose_perm(params.as<TransposeParams>(), in.shape(0)))
    dims.push_back(in.shape(0)[static_cast<int>(a)]);
  return {{in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_expand(const Params& params, const InferInputs& in) {
  const Ints dims = ints_or(in, 1, params.as<ExpandParams>().shape);
  return {{in.dtype(0), broadcast(in.shape(0), Shape(std::span<const std::int64_t>(dims)))}};
}

Types infer_tile(const Params& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const Ints repeats = ints_or(in, 1, params.as<TileParams>().repeats);
  if (static_cast<int>(repeats.size()) != x.rank())
    throw bad_input("repeats has {} entries for x {}", repeats.size(), to_string(x));
  Ints dims;
  for (int i = 0; i < x.rank(); ++i) {
    const std::int64_t r = repeats[static_cast<std::size_t>(i)];
    if (r < 0) throw bad_input("repeats of axis {} is {}; it must be 0 or more", i, r);
    dims.push_back(checked_mul(x[i], r));
  }
  return {{in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_concat(const Params& params, const InferInputs& in) {
  const Shape& first = in.shape(0);
  const int axis = normalize_axis(params.as<AxisParams>().axis, first.rank());
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < in.size(); ++i) {
    const Shape& s = in.shape(i);
    if (in.dtype(i) != in.dtype(0))
      throw bad_input("input {} is {} and input 0 {}; cast one", i, name(in.dtype(i)),
                      name(in.dtype(0)));
    if (s.rank() != first.rank() || s.with_dim(axis, 0) != first.with_dim(axis, 0))
      throw bad_input("input {} {} and input 0 {} differ beside axis {}", i, to_string(s),
                      to_string(first), axis);
    extent = checked_add(extent, s[axis]);
  }
  return {{in.dtype(0), first.with_dim(axis, extent)}};
}

Types infer_split(const Params& params, const InferInputs& in) {
  const auto& p = params.as<SplitParams>();
  const int axis = normalize_axis(p.axis, in.shape(0).rank());
  Types types;
  for (const std::int64_t extent : split_sizes(p, in))
    types.push_back({in.dtype(0), in.shape(0).with_dim(axis, extent)});
  return types;
}

Types infer_slice(const Params& params, const InferInputs& in) {
  const auto axes = slice_axes(params.as<SliceParams>(), in);
  Ints dims;
  for (int i = 0; i < in.shape(0).rank(); ++i)
    dims.push_back(axes[static_cast<std::size_t>(i)].count);
  return {{in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_pad(const Params& params, const InferInputs& in) {
  const auto& p = params.as<PadParams>();
  const Shape& x = in.shape(0);
  const auto axes = pad_axes(p, in);
  if (in.has(2)) {
    if (in.dtype(2) != in.dtype(0))
      throw bad_input("the value is {} and x {}; cast one", name(in.dtype(2)), name(in.dtype(0)));
    if (in.shape(2).numel() != 1)
      throw bad_input("the value must be one element, got {}", to_string(in.type(2)));
  }
  Ints dims;
  for (int i = 0; i < x.rank(); ++i) {
    const PadAxis a = axes[static_cast<std::size_t>(i)];
    constexpr std::int64_t kLeast = -(std::int64_t{1} << 62);
    if (a.begin < kLeast || a.end < kLeast)
      throw bad_input("axis {}: pads {} and {}; at least -2^62 are taken", i, a.begin, a.end);
    const std::int64_t extent = checked_add(checked_add(x[i], a.begin), a.end);
    if (extent < 0)
      throw bad_input("axis {}: pads {} and {} cut more than the {} elements there", i, a.begin,
                      a.end, x[i]);
    if (p.mode != PadMode::constant && extent > 0 && (a.begin > 0 || a.end > 0)) {
      // Cut first: what is left must have something to repeat.
      const std::int64_t kept =
          x[i] + std::min<std::int64_t>(a.begin, 0) + std::min<std::int64_t>(a.end, 0);
      if (kept < (p.mode == PadMode::reflect ? 2 : 1))
        throw bad_input("axis {}: {} elements are left to {} from; use mode constant or edge", i,
                        kept, p.mode == PadMode::reflect ? "reflect" : "repeat");
    }
    dims.push_back(extent);
  }
  return {{in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
}

Types infer_depth_to_space(const Params& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const std::int64_t b = params.as<DepthToSpaceParams>().blocksize;
  if (x.rank() != 4) throw bad_input("x must be [N,C,H,W], got {}", to_string(x));
  if (b < 1 || x[1] % checked_mul(b, b) != 0)
    throw bad_input("blocksize {} squared does not divide the {} channels of x", b, x[1]);
  return {{in.dtype(0), Shape{x[0], x[1] / (b * b), checked_mul(x[2], b), checked_mul(x[3], b)}}};
}

Types infer_space_to_depth(const Params& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const std::int64_t b = params.as<SpaceToDepthParams>().blocksize;
  if (x.rank() != 4) throw bad_input("x must be [N,C,H,W], got {}", to_string(x));
  if (b < 1 || x[2] % b != 0 || x[3] % b != 0)
    throw bad_input("blocksize {} does not divide {} x {} of x", b, x[2], x[3]);
  return {{in.dtype(0), Shape{x[0], checked_mul(x[1], checked_mul(b, b)), x[2] / b, x[3] / b}}};
}

Types infer_reverse_sequence(const Params& params, const InferInputs& in) {
  const auto& p = params.as<ReverseSequenceParams>();
  const Shape& x = in.shape(0);
  const int batch = normalize_axis(p.batch_axis, x.rank());
  const int time = normalize_axis(p.time_axis, x.rank());
  if (batch == time) throw bad_input("batch_axis and time_axis are both {}", batch);
  if (in.shape(1) != Shape{x[batch]})
    throw bad_input("sequence_lens must be [{}], got {}", x[batch], to_string(in.shape(1)));
  return {in.type(0)};
}

Types infer_trilu(const Params&, const InferInputs& in) {
  if (in.shape(0).rank() < 2)
    throw bad_input("x must have two axes or more, got {}", to_string(in.shape(0)));
  return {in.type(0)};
}

template <class P>
Params defaults() {
  return Params(P{});
}

using Names = std::vector<std::string_view>;

constexpr auto kMovement = OpNature::movement;

}  // namespace

std::array<SliceAxis, kMaxRank> slice_axes(const SliceParams& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const Ints starts = ints_or(in, 1, params.starts), ends = ints_or(in, 2, params.ends);
  Ints axes = ints_or(in, 3, params.axes), steps = ints_or(in, 4, params.steps);
  if (axes.empty()) {
    axes.resize(starts.size());
    std::iota(axes.begin(), axes.end(), 0);
  }
  if (steps.empty()) steps.assign(starts.size(), 1);
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    throw bad_input("slice has {} starts, {} ends, {} axes and {} steps; give as many of each",
                    starts.size(), ends.size(), axes.size(), steps.size());
  axes = normalized_axes(axes, x.rank());
  std::array<SliceAxis, kMaxRank> result;
  for (int i = 0; i < x.rank(); ++i) result[static_cast<std::size_t>(i)].count = x[i];
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t extent = x[static_cast<int>(axes[i])], step = steps[i];
    if (step == 0) throw bad_input("the step of axis {} is 0", axes[i]);
    const auto place = [&](std::int64_t at, std::int64_t low, std::int64_t high) {
      if (at < 0) at = at < -extent ? -1 : at + extent;
      return std::clamp(at, low, high);
    };
    SliceAxis& a = result[static_cast<std::size_t>(axes[i])];
    a = {.begin = 0, .step = step, .count = 0};
    if (extent == 0) continue;
    std::int64_t span = 0;  // distance walked in the step's direction, the last position excluded
    if (step > 0) {
      a.begin = place(starts[i], 0, extent);
      span = place(ends[i], 0, extent) - a.begin;
    } else {
      a.begin = place(starts[i], 0, extent - 1);
      span = a.begin - place(ends[i], -1, extent - 1);
    }
    if (span <= 0) {
      a.begin = 0;
      continue;
    }
    // |step| without overflow; a step beyond the span takes one element.
    const std::uint64_t stride =
        step > 0 ? static_cast<std::uint64_t>(step) : ~static_cast<std::uint64_t>(step) + 1;
    a.count = static_cast<std::int64_t>((static_cast<std::uint64_t>(span) - 1) / stride) + 1;
    if (a.count == 1) a.step = 1;
  }
  return result;
}

std::array<PadAxis, kMaxRank> pad_axes(const PadParams& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const Ints pads = ints_or(in, 1, params.pads);
  Ints axes = ints_or(in, 3, params.axes);
  if (axes.empty() && !in.has(3) && params.axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  axes = normalized_axes(axes, x.rank());
  if (pads.size() != 2 * axes.size())
    throw bad_input("pads has {} entries for {} axes of x {}; give a begin and an end for each",
                    pads.size(), axes.size(), to_string(x));
  std::array<PadAxis, kMaxRank> result;
  for (std::size_t i = 0; i < axes.size(); ++i)
    result[static_cast<std::size_t>(axes[i])] = {pads[i], pads[axes.size() + i]};
  return result;
}

Ints split_sizes(const SplitParams& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  const std::int64_t extent = x[normalize_axis(params.axis, x.rank())];
  Ints sizes = ints_or(in, 1, params.split);
  if (sizes.empty() && extent != 0 && params.num_outputs < 1)
    throw bad_input("split needs sizes or num_outputs");
  if (sizes.empty()) {
    const std::int64_t n = params.num_outputs;
    if (n > std::max<std::int64_t>(extent, 1) || n < 1)
      throw bad_input("axis {} of x {} cannot be split into {} pieces", params.axis, to_string(x),
                      n);
    const std::int64_t piece = (extent + n - 1) / n;
    if (extent - piece * (n - 1) < 0)
      throw bad_input("axis {} of x {} cannot be split into {} pieces of {}", params.axis,
                      to_string(x), n, piece);
    sizes.assign(static_cast<std::size_t>(n), piece);
    sizes.back() = extent - piece * (n - 1);
    return sizes;
  }
  std::int64_t sum = 0;
  for (const std::int64_t s : sizes) {
    if (s < 0) throw bad_input("split has the negative size {}", s);
    sum = checked_add(sum, s);
  }
  if (sum != extent)
    throw bad_input("the split sizes [{}] add up to {}, axis {} of x {} has {}",
                    fmt::join(sizes, ","), sum, params.axis, to_string(x), extent);
  return sizes;
}

Ints transpose_perm(const TransposeParams& params, const Shape& x) {
  if (params.perm.empty()) {
    Ints perm(static_cast<std::size_t>(x.rank()));
    std::iota(perm.rbegin(), perm.rend(), 0);
    return perm;
  }
  if (static_cast<int>(params.perm.size()) != x.rank())
    throw bad_input("perm [{}] has {} entries for x {}", fmt::join(params.perm, ","),
                    params.perm.size(), to_string(x));
  return normalized_axes(params.perm, x.rank());
}

std::span<const OpRow> layout_ops() {
  static const OpRow rows[] = {
      {.name = "identity",
       .summary = "The input, unchanged.",
       .nature = kMovement,
       .infer = same_as_input},
      {.name = "reshape",
       .summary = "The same elements under another shape.",
       .nature = kMovement,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<ReshapeParams>,
       .infer = infer_reshape,
       .input_names = [] { return Names{"x", "shape"}; }},
      {.name = "flatten",
       .summary = "A matrix: the axes before `axis` against those from it on.",
       .nature = kMovement,
       .defaults = defaults<FlattenParams>,
       .infer = infer_flatten},
      {.name = "squeeze",
       .summary = "Drops axes of extent 1.",
       .nature = kMovement,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<AxesParams>,
       .infer = infer_squeeze,
       .input_names = [] { return Names{"x", "axes"}; }},
      {.name = "unsqueeze",
       .summary = "Inserts axes of extent 1.",
       .nature = kMovement,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<AxesParams>,
       .infer = infer_unsqueeze,
       .input_names = [] { return Names{"x", "axes"}; }},
      {.name = "transpose",
       .summary = "Permutes the axes.",
       .nature = kMovement,
       .per_sample = false,
       .defaults = defaults<TransposeParams>,
       .infer = infer_transpose},
      {.name = "expand",
       .summary = "Broadcasts to a shape.",
       .nature = kMovement,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<ExpandParams>,
       .infer = infer_expand,
       .input_names = [] { return Names{"x", "shape"}; }},
      {.name = "tile",
       .summary = "Repeats the tensor along each axis.",
       .nature = kMovement,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<TileParams>,
       .infer = infer_tile,
       .input_names = [] { return Names{"x", "repeats"}; }},
      {.name = "concat",
       .summary = "Joins tensors along an axis.",
       .nature = kMovement,
       .max_inputs = kVariadic,
       .per_sample = false,
       .defaults = defaults<AxisParams>,
       .infer = infer_concat},
      {.name = "split",
       .summary = "Cuts a tensor into pieces along an axis.",
       .nature = kMovement,
       .max_inputs = 2,
       .max_outputs = kVariadic,
       .per_sample = false,
       .defaults = defaults<SplitParams>,
       .infer = infer_split,
       .input_names = [] { return Names{"x", "split"}; }},
      {.name = "slice",
       .summary = "Takes every step-th element from start to end on each axis.",
       .nature = kMovement,
       .max_inputs = 5,
       .per_sample = false,
       .defaults = defaults<SliceParams>,
       .infer = infer_slice,
       .input_names = [] { return Names{"x", "starts", "ends", "axes", "steps"}; }},
      {.name = "pad",
       .summary = "Adds elements at the ends of axes, or cuts them with negative pads.",
       .nature = kMovement,
       .max_inputs = 4,
       .per_sample = false,
       .defaults = defaults<PadParams>,
       .infer = infer_pad,
       .input_names = [] { return Names{"x", "pads", "value", "axes"}; }},
      {.name = "depth_to_space",
       .summary = "Spreads channels over blocks of the image.",
       .nature = kMovement,
       .defaults = defaults<DepthToSpaceParams>,
       .infer = infer_depth_to_space},
      {.name = "space_to_depth",
       .summary = "Gathers blocks of the image into channels.",
       .nature = kMovement,
       .defaults = defaults<SpaceToDepthParams>,
       .infer = infer_space_to_depth},
      {.name = "reverse_sequence",
       .summary = "Reverses the first elements along time, as many as each batch entry says.",
       .nature = kMovement,
       .min_inputs = 2,
       .max_inputs = 2,
       .per_sample = false,
       .defaults = defaults<ReverseSequenceParams>,
       .infer = infer_reverse_sequence,
       .input_names = [] { return Names{"x", "sequence_lens"}; }},
      {.name = "trilu",
       .summary = "The upper or lower triangle of matrices; the rest is zero.",
       .nature = kMovement,
       .max_inputs = 2,
       .defaults = defaults<TriluParams>,
       .infer = infer_trilu,
       .input_names = [] { return Names{"x", "k"}; }},
  };
  return rows;
}

}  // namespace etalon
