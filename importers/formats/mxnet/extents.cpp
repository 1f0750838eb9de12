// Operators that move, repeat or cut elements, and shapes as values.
#include <algorithm>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

constexpr std::int64_t kMostCopies = 1 << 24, kMostDiagonal = 1 << 11;

// `x` with these extents, where at most one behind `axis` is not known.
ValueId reshaped(const Parts& p, ValueId x, Ints dims, std::size_t axis) {
  for (std::size_t i = 0; i < std::min(axis, dims.size()); ++i)
    if (dims[i] < 0) dims[i] = 0;  // copied
  if (std::ranges::count_if(dims, [](std::int64_t n) { return n < 0; }) > 1)
    throw bad_input("two extents that the file does not say");
  return p.t.g.reshape(p.t.name(), x, dims);
}

std::vector<ValueId> tile(Translator& t) {
  const Parts p{t};
  Ints reps = t.integers("reps");
  ValueId x = t.x();
  const auto rank = static_cast<std::size_t>(t.g.rank(x));
  for (const std::int64_t n : reps)
    if (n < 1 || n > kMostCopies) throw bad_input("{} copies", n);
  if (reps.size() < rank) reps.insert(reps.begin(), rank - reps.size(), 1);
  if (reps.size() > rank) {
    Ints axes;
    for (std::size_t i = 0; i < reps.size() - rank; ++i)
      axes.push_back(static_cast<std::int64_t>(i));
    x = p.unsqueeze("axes", x, axes);
  }
  return {t.op("tile", {x}, {{"repeats", reps}})};
}

// Each element of an axis `repeats` times in a row.
std::vector<ValueId> repeat(Translator& t) {
  const Parts p{t};
  const std::int64_t n = t.integer("repeats", 0);
  if (n < 1 || n > kMostCopies) throw bad_input("{} copies", n);
  const bool flat = t.integers("axis").empty();
  const ValueId x = flat ? p.flat(t.x()) : t.x();
  const std::int64_t axis = flat ? 0 : p.axis("axis", 0, t.g.rank(x));
  const auto at = static_cast<std::size_t>(axis);
  Ints reps(static_cast<std::size_t>(t.g.rank(x)) + 1, 1), dims = t.g.dims(x);
  reps[at + 1] = n;
  if (dims[at] > 0) dims[at] = checked_mul(dims[at], n);
  const ValueId all =
      p.op("tile", "all", {p.unsqueeze("axis", x, {axis + 1})}, {{"repeats", reps}});
  return {reshaped(p, all, dims, at)};
}

std::vector<ValueId> reverse(Translator& t) {
  const Ints axes = t.integers("axis");
  if (axes.empty()) throw bad_input("{} without an axis", t.operator_name());
  return {t.op("slice", {t.x()},
               {{"starts", Ints(axes.size(), INT64_MAX)},
                {"ends", Ints(axes.size(), INT64_MIN)},
                {"axes", axes},
                {"steps", Ints(axes.size(), -1)}})};
}

// Of a row the matrix that has it for a diagonal; of more the k-th diagonals of two axes, last.
std::vector<ValueId> diag(Translator& t) {
  const Parts p{t};
  const ValueId x = t.x();
  const int rank = t.g.rank(x);
  const std::int64_t k = t.integer("k", 0);
  const Ints dims = t.g.dims(x);
  const auto known = [&](std::int64_t n) {
    if (n < 1 || n > kMostDiagonal) throw bad_input("a diagonal of {} elements", n);
    return n;
  };
  if (k < -kMostDiagonal || k > kMostDiagonal) throw bad_input("diag with k={}", k);
  if (rank == 1) {
    const std::int64_t n = known(dims[0]), side = known(n + std::abs(k));
    Ints places;
    for (std::int64_t i = 0; i < n; ++i)
      places.insert(places.end(),
                    {i + std::max<std::int64_t>(-k, 0), i + std::max<std::int64_t>(k, 0)});
    const ValueId zeros = t.g.constant(p.name("zeros"), filled_f32(side * side, 0));
    const ValueId at = t.g.constant(
        p.name("places"), Tensor::of<std::int64_t>({n, 2}, std::span<const std::int64_t>(places)));
    return {t.op("scatter_nd", {t.g.reshape(p.name("to"), zeros, {side, side}), at, x})};
  }
  const std::int64_t one = p.axis("axis1", 0, rank), two = p.axis("axis2", 1, rank);
  if (one == two) throw bad_input("a diagonal of one axis");
  const std::int64_t h = known(dims[static_cast<std::size_t>(one)]),
                     w = known(dims[static_cast<std::size_t>(two)]);
  Ints perm, shape, places;
  for (std::int64_t i = 0; i < rank; ++i)
    if (i != one && i != two) {
      perm.push_back(i);
      shape.push_back(dims[static_cast<std::size_t>(i)]);
    }
  perm.insert(perm.end(), {one, two});
  shape.push_back(h * w);
  for (std::int64_t i = 0; i < h; ++i)
    if (i + k >= 0 && i + k < w) places.push_back(i * w + i + k);
  if (places.empty()) throw bad_input("diag with k={} of {} x {}", k, h, w);
  const ValueId turned = t.g.transpose(p.name("turned"), x, perm);
  return {t.op("gather", {reshaped({t}, turned, shape, shape.size() - 1), p.ints("places", places)},
               {{"axis", std::int64_t{rank - 2}}})};
}

std::vector<ValueId> blocks(Translator& t) {
  const std::int64_t b = t.integer("block_size", 0);
  if (b < 1 || b > 4096) throw bad_input("{} with block_size={}", t.operator_name(), b);
  return {t.op(t.operator_name(), {t.x()}, {{"blocksize", b}, {"mode", std::string("DCR")}})};
}

std::vector<ValueId> slice_like(Translator& t) {
  const Parts p{t};
  const ValueId x = t.x(0), like = t.x(1);
  Ints axes = t.integers("axes");
  if (axes.empty()) {
    if (t.g.rank(x) != t.g.rank(like))
      throw bad_input("slice_like of rank {} and {}", t.g.rank(x), t.g.rank(like));
    for (int i = 0; i < t.g.rank(x); ++i) axes.push_back(i);
  }
  ValueId y = x;
  for (const std::int64_t a : axes) {
    const int axis = normalize_axis(a, t.g.rank(x));
    if (axis >= t.g.rank(like)) throw bad_input("axis {} of rank {}", a, t.g.rank(like));
    if (t.g.extents(x, axis) == t.g.extents(like, axis)) continue;
    y = p.op(
        "slice", "cut",
        {y, p.ints("begin", {0}), p.extents("end", like, axis, axis + 1), p.ints("axis", {axis})});
  }
  return {t.op("identity", {y})};
}

ValueId expanded(const Parts& p, const Ints& shape) {
  std::int64_t count = 1;
  for (const std::int64_t n : shape) {
    if (n < 1 || n > kMostCopies / count)
      throw bad_input("{} to these extents", p.t.operator_name());
    count *= n;
  }
  return p.t.op("expand", {p.t.x()}, {{"shape", shape}});
}

std::vector<ValueId> broadcast_to(Translator& t) {
  Ints shape = t.integers("shape");
  if (static_cast<int>(shape.size()) != t.g.rank(t.x()))
    throw bad_input("{} extents for rank {}", shape.size(), t.g.rank(t.x()));
  for (std::int64_t& n : shape)
    if (n == 0) n = 1;  // as it is
  return {expanded({t}, shape)};
}

std::vector<ValueId> broadcast_axis(Translator& t) {
  const Ints axes = t.integers("axis"), sizes = t.integers("size");
  if (axes.size() != sizes.size())
    throw bad_input("{} axes, {} extents", axes.size(), sizes.size());
  Ints shape(static_cast<std::size_t>(t.g.rank(t.x())), 1);
  for (std::size_t i = 0; i < axes.size(); ++i)
    shape[static_cast<std::size_t>(normalize_axis(axes[i], t.g.rank(t.x())))] = sizes[i];
  return {expanded({t}, shape)};
}

std::vector<ValueId> broadcast_like(Translator& t) {
  const Parts p{t};
  const ValueId x = t.x(0), like = t.x(1);
  const Ints left = t.integers("lhs_axes"), right = t.integers("rhs_axes");
  if (left.size() != right.size())
    throw bad_input("{} axes like {} others", left.size(), right.size());
  if (left.empty()) {
    if (t.g.rank(x) != t.g.rank(like))
      throw bad_input("broadcast_like of rank {} and {}", t.g.rank(x), t.g.rank(like));
    return {t.op("expand", {x, p.extents("extents", like, 0, t.g.rank(like))})};
  }
  std::vector<ValueId> shape(static_cast<std::size_t>(t.g.rank(x)), p.ints("as_is", {1}));
  for (std::size_t i = 0; i < left.size(); ++i) {
    const int from = normalize_axis(right[i], t.g.rank(like));
    shape[static_cast<std::size_t>(normalize_axis(left[i], t.g.rank(x)))] =
        p.extents("extent", like, from, from + 1);
  }
  return {t.op("expand", {x, p.op("concat", "shape", shape, {{"axis", std::int64_t{0}}})})};
}

// The extents [lhs_begin, lhs_end) become those [rhs_begin, rhs_end) of the other.
std::vector<ValueId> reshape_like(Translator& t) {
  const Parts p{t};
  const ValueId x = t.x(0), like = t.x(1);
  const auto bound = [&](std::string_view key, std::int64_t otherwise, int rank) {
    std::int64_t n = t.integer(key, otherwise);
    if (n < 0) n += rank;
    if (n < 0 || n > rank) throw bad_input("{} of rank {}", key, rank);
    return n;
  };
  const int lr = t.g.rank(x), rr = t.g.rank(like);
  const std::int64_t lb = bound("lhs_begin", 0, lr), le = bound("lhs_end", lr, lr),
                     rb = bound("rhs_begin", 0, rr), re = bound("rhs_end", rr, rr);
  if (lb > le || rb > re) throw bad_input("reshape_like with an end before its begin");
  std::vector<ValueId> shape;
  if (lb > 0) shape.push_back(p.extents("before", x, 0, lb));
  if (rb < re) shape.push_back(p.extents("like", like, rb, re));
  if (le < lr) shape.push_back(p.extents("behind", x, le, lr));
  if (shape.empty()) throw bad_input("reshape_like to no axis");
  const ValueId to =
      shape.size() == 1 ? shape[0] : p.op("concat", "shape", shape, {{"axis", std::int64_t{0}}});
  return {t.op("reshape", {x, to})};
}

std::vector<ValueId> shape_array(Translator& t) { return {t.op("shape", {t.x()})}; }

std::vector<ValueId> size_array(Translator& t) {
  return {t.g.reshape(t.name(), Parts{t}.op("size", "count", {t.x()}), {1})};
}

std::vector<ValueId> filled_like(Translator& t) {
  const Parts p{t};
  const float v = t.operator_name() == "ones_like" ? 1 : 0;
  return {t.op("constant_of_shape", {p.extents("extents", t.x(), 0, t.g.rank(t.x())),
                                     t.g.constant(p.name("value"), filled_f32(1, v))})};
}

// Cut to the extents of a second image, or to those given; in the middle where that is asked.
std::vector<ValueId> crop(Translator& t) {
  const ValueId x = t.x();
  const Ints dims = t.g.dims(x);
  if (dims.size() != 4) throw bad_input("Crop of rank {}", dims.size());
  Ints size = t.integers("h_w"), offset = t.integers("offset");
  if (t.input_count() > 1) {
    const Ints like = t.g.dims(t.x(1));
    if (like.size() != 4) throw bad_input("Crop like rank {}", like.size());
    size = {like[2], like[3]};
  }
  if (offset.empty()) offset = {0, 0};
  if (size.size() != 2 || offset.size() != 2) throw bad_input("Crop without its two extents");
  Ints ends;
  for (const std::size_t a : {0U, 1U}) {
    const std::int64_t whole = dims[a + 2];
    if (whole < 1 || size[a] < 1) throw bad_input("Crop of extents that the file does not say");
    if (t.flag("center_crop", false)) offset[a] = (whole - size[a]) / 2;
    if (size[a] > whole || offset[a] < 0 || offset[a] > whole - size[a])
      throw bad_input("Crop to {} from {} of {}", size[a], offset[a], whole);
    ends.push_back(offset[a] + size[a]);
  }
  return {t.op("slice", {x}, {{"starts", offset}, {"ends", ends}, {"axes", Ints{2, 3}}})};
}

constexpr OperatorRow kRows[] = {{"tile", tile},
                                 {"repeat", repeat},
                                 {"reverse", reverse},
                                 {"flip", reverse},
                                 {"diag", diag},
                                 {"depth_to_space", blocks},
                                 {"space_to_depth", blocks},
                                 {"slice_like", slice_like},
                                 {"broadcast_to", broadcast_to},
                                 {"broadcast_axis", broadcast_axis},
                                 {"broadcast_axes", broadcast_axis},
                                 {"broadcast_like", broadcast_like},
                                 {"reshape_like", reshape_like},
                                 {"shape_array", shape_array},
                                 {"size_array", size_array},
                                 {"ones_like", filled_like},
                                 {"zeros_like", filled_like},
                                 {"Crop", crop}};

}  // namespace

std::span<const OperatorRow> extent_rows() { return kRows; }

}  // namespace etalon::mxnet
