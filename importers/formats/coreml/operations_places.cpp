// MIL's operations that cut, place and arrange: where an extent or a position is computed by the
// program itself, it is computed here.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

using Values = std::vector<ValueId>;
constexpr std::int64_t kMostWindowPlaces = std::int64_t{1} << 24;

// A vector of begins, ends or sizes, by element.
class Positions {
 public:
  Positions(Operation& o, std::string_view key, int rank) : o_(o), key_(key) {
    if (o.constant(key) != nullptr) {
      known_ = o.integers(key);
      if (static_cast<int>(known_.size()) != rank)
        throw bad_input("{} {} of {}", known_.size(), key, rank);
    } else {
      all_ = o.i64(key, o.value(key));
    }
  }
  bool constant() const { return all_ == kAbsent; }
  std::int64_t known(std::size_t axis) const { return known_[axis]; }
  ValueId at(std::size_t axis) const {  // [1]
    return constant() ? o_.ints(key_, {known_[axis]})
                      : o_.element(key_, all_, static_cast<std::int64_t>(axis));
  }

 private:
  Operation& o_;
  std::string key_;
  Ints known_;
  ValueId all_ = kAbsent;
};

// What slice_by_index, slice_by_size and slice_update take of each axis.
struct Cutting {
  Cutting(Operation& o, int its_rank)
      : rank(static_cast<std::size_t>(its_rank)), begin(o, "begin", its_rank) {
    const auto masked = [&](const char* key) {
      Ints mask = o.integers(key);
      mask.resize(rank, 0);
      return mask;
    };
    begin_mask = masked("begin_mask");
    end_mask = masked("end_mask");
    squeeze = masked("squeeze_mask");
    stride = o.integers("stride");
    stride.resize(rank, 1);
    for (const std::int64_t s : stride)
      if (s == 0) throw bad_input("a slice with a stride of 0");
  }
  std::size_t rank;
  Positions begin;
  Ints begin_mask, end_mask, squeeze, stride;
};

ValueId cut(Operation& o, ValueId x, const std::string& name) {
  const Cutting c(o, o.g.rank(x));
  const bool by_size = o.type == "slice_by_size";
  const Positions end(o, by_size ? "size" : "end", static_cast<int>(c.rank));
  Values starts, ends;
  Ints axes, steps, taken;
  for (std::size_t a = 0; a < c.rank; ++a) {
    const auto axis = static_cast<std::int64_t>(a);
    const std::int64_t step = c.stride[a];
    if (c.squeeze[a] != 0) {
      taken.push_back(axis);
      continue;
    }
    const bool from_end = by_size && end.constant() && end.known(a) < 0;
    const bool whole_begin = c.begin_mask[a] != 0, whole_end = c.end_mask[a] != 0 || from_end;
    if (whole_begin && whole_end && step == 1) continue;
    axes.push_back(axis);
    steps.push_back(step);
    starts.push_back(whole_begin ? o.ints("first", {step > 0 ? 0 : kFar}) : c.begin.at(a));
    if (whole_end) {
      ends.push_back(o.ints("last", {step > 0 ? kFar : -kFar}));
    } else if (!by_size) {
      ends.push_back(end.at(a));
    } else {
      if (!end.constant())
        o.g.note("slice_by_size: a size that is computed is taken to be none of -1");
      ends.push_back(o.g.op("add", o.part("ends"), {starts.back(), end.at(a)}));
    }
  }
  ValueId y = x;
  if (!axes.empty()) {
    const auto joined = [&](const char* role, const Values& v) {
      return o.g.op("concat", o.part(role), v, {{"axis", std::int64_t{0}}});
    };
    y = o.g.op("slice", taken.empty() ? name : o.part("kept"),
               {x, joined("starts", starts), joined("stops", ends), o.ints("axes", axes),
                o.ints("steps", steps)});
  }
  for (std::size_t k = taken.size(); k-- > 0;)
    y = o.g.op(
        "gather", k == 0 ? name : o.part("element"),
        {y, o.g.reshape(o.part("place"), c.begin.at(static_cast<std::size_t>(taken[k])), {})},
        {{"axis", taken[k]}});
  return y == x ? o.g.op("identity", name, {x}) : y;
}

// With constants alone, as one node.
Values sliced(Operation& o) {
  const ValueId x = o.value("x");
  const char* other = o.type == "slice_by_size" ? "size" : "end";
  if (o.constant("begin") == nullptr || o.constant(other) == nullptr) return {cut(o, x, o.name)};
  const Cutting c(o, o.g.rank(x));
  const Positions end(o, other, static_cast<int>(c.rank));
  Ints starts, ends, axes, squeeze;
  for (std::size_t a = 0; a < c.rank; ++a) {
    const auto axis = static_cast<std::int64_t>(a);
    const std::int64_t first = c.begin.known(a), step = c.squeeze[a] != 0 ? 1 : c.stride[a];
    std::int64_t last = end.known(a);
    if (c.squeeze[a] != 0) {
      squeeze.push_back(axis);
      last = first == -1 ? kFar : first + 1;
    } else if (o.type == "slice_by_size") {
      last = last < 0 || (first < 0 && first + last >= 0) ? kFar : first + last;
    } else if (c.end_mask[a] != 0) {
      last = step > 0 ? kFar : -kFar;
    }
    const bool whole = c.begin_mask[a] != 0 && c.squeeze[a] == 0;
    starts.push_back(!whole ? first : step > 0 ? 0 : kFar);
    ends.push_back(last);
    axes.push_back(axis);
  }
  Ints steps = c.stride;
  for (const std::int64_t a : squeeze) steps[static_cast<std::size_t>(a)] = 1;
  const ValueId y = o.g.op("slice", squeeze.empty() ? o.name : o.part("kept"), {x},
                           {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
  return {squeeze.empty() ? y : o.g.op("squeeze", o.name, {y}, {{"axes", squeeze}})};
}

// The places of the elements of x are cut as the slice says; there the update is written.
Values slice_updated(Operation& o) {
  const ValueId x = o.value("x"), update = o.value("update");
  const auto number = [&](const char* role, std::int64_t v) {
    return o.g.constant(o.part(role), scalar_of(DType::i64, static_cast<double>(v)));
  };
  const ValueId extents = o.g.op("shape", o.part("extents"), {x});
  const ValueId count = o.g.op("size", o.part("count"), {x});
  const ValueId all = o.g.op(
      "reshape", o.part("all"),
      {o.g.op("range", o.part("range"), {number("zero", 0), count, number("one", 1)}), extents});
  const ValueId at = o.g.reshape(o.part("places"), cut(o, all, o.part("cut")), {-1});
  const ValueId written =
      o.g.op("scatter_elements", o.part("written"),
             {o.g.reshape(o.part("flat"), x, {-1}), at,
              o.g.reshape(o.part("update"), o.cast("typed", update, o.g.dtype(x)), {-1})},
             {{"axis", std::int64_t{0}}});
  return {o.g.op("reshape", o.name, {written, extents})};
}

Values windows(Operation& o) {
  const ValueId x = o.value("x");
  const int axis = normalize_axis(o.integer("axis", 0), o.g.rank(x));
  const std::int64_t extent = known_extent(o.g, x, axis), width = o.integer("size", 1),
                     step = o.integer("stride", 1);
  Tensor at = axis_windows(extent, width, step, kMostWindowPlaces);
  return {o.g.op("gather", o.name, {x, o.g.constant(o.part("windows"), std::move(at))},
                 {{"axis", std::int64_t{axis}}})};
}

// [N,C,H,W] and blocks of its last two axes.
struct ImageBlocks {
  explicit ImageBlocks(Operation& o, const char* borders)
      : x(o.value("x")), block(o.integers("block_shape")), border(o.integers(borders)) {
    if (o.g.rank(x) != 4 || block.size() != 2 || border.size() != 4 || block[0] < 1 || block[1] < 1)
      throw bad_input("{} of rank {} in {} blocks", o.type, o.g.rank(x), block.size());
    for (const std::int64_t n : border)
      if (n < 0 || n > kFar) throw bad_input("{} with a border of {}", o.type, n);
  }
  ValueId x;
  Ints block, border;
};

Values space_to_batch(Operation& o) {
  const ImageBlocks b(o, "paddings");
  const ValueId padded = o.g.op(
      "pad", o.part("padded"), {b.x},
      {{"pads", Ints{b.border[0], b.border[2], b.border[1], b.border[3]}}, {"axes", Ints{2, 3}}});
  Ints split{0, 0}, merged{-1};
  merged.push_back(known_extent(o.g, padded, 1));
  for (int a = 2; a < 4; ++a) {
    const std::int64_t n = known_extent(o.g, padded, a),
                       by = b.block[static_cast<std::size_t>(a - 2)];
    if (n % by != 0) throw bad_input("{} elements in blocks of {}", n, by);
    split.insert(split.end(), {n / by, by});
    merged.push_back(n / by);
  }
  const ValueId cells = o.g.reshape(o.part("blocks"), padded, split);
  return {o.g.reshape(o.name, o.g.transpose(o.part("turned"), cells, {3, 5, 0, 1, 2, 4}), merged)};
}

Values batch_to_space(Operation& o) {
  const ImageBlocks b(o, "crops");
  const std::int64_t c = known_extent(o.g, b.x, 1), h = known_extent(o.g, b.x, 2),
                     w = known_extent(o.g, b.x, 3);
  const std::int64_t high = checked_mul(h, b.block[0]), wide = checked_mul(w, b.block[1]);
  if (b.border[0] + b.border[1] >= high || b.border[2] + b.border[3] >= wide)
    throw bad_input("{} by {} cropped by {} and {}", high, wide, b.border[0] + b.border[1],
                    b.border[2] + b.border[3]);
  const ValueId cells = o.g.reshape(o.part("blocks"), b.x, {b.block[0], b.block[1], -1, c, h, w});
  const ValueId whole =
      o.g.reshape(o.part("whole"), o.g.transpose(o.part("turned"), cells, {2, 3, 4, 0, 5, 1}),
                  {-1, c, high, wide});
  return {o.g.op("slice", o.name, {whole},
                 {{"starts", Ints{b.border[0], b.border[2]}},
                  {"ends", Ints{high - b.border[1], wide - b.border[3]}},
                  {"axes", Ints{2, 3}}})};
}

Values reverse_sequence(Operation& o) {
  return {o.g.op(
      "reverse_sequence", o.name, {o.value("x"), o.i64("lengths", o.value("lengths"))},
      {{"batch_axis", o.integer("batch_axis", 0)}, {"time_axis", o.integer("seq_axis", 0)}})};
}

// A 0 copies an extent; where the ranks differ, counted from the last axis (since iOS 17), and 1
// where there is none.
Values reshaped(Operation& o) {
  const ValueId x = o.value("x");
  if (o.constant("shape") == nullptr)
    return {o.g.op("reshape", o.name, {x, o.i64("shape", o.value("shape"))})};
  Ints shape = o.integers("shape");
  const auto rank = static_cast<std::ptrdiff_t>(shape.size());
  if (std::ranges::count(shape, 0) == 0 || rank == o.g.rank(x))
    return {o.g.reshape(o.name, x, shape)};
  for (std::ptrdiff_t i = 0; i < rank; ++i) {
    if (shape[static_cast<std::size_t>(i)] != 0) continue;
    const std::ptrdiff_t from = o.g.rank(x) - rank + i;
    shape[static_cast<std::size_t>(i)] =
        from < 0 ? 1 : known_extent(o.g, x, static_cast<int>(from));
  }
  return {o.g.op("reshape", o.name, {x, o.ints("shape", shape)}, {{"allowzero", true}})};
}

Values reshaped_like(Operation& o) {
  const Values like = o.values("ref_tensors");
  const Ints begins = o.each_integer("begins"), ends = o.each_integer("ends"),
             masks = o.each_integer("end_masks");
  if (begins.size() != like.size() || ends.size() != like.size() || masks.size() != like.size())
    throw bad_input("{} tensors to be like, {} begins, {} ends", like.size(), begins.size(),
                    ends.size());
  Values parts;
  for (std::size_t i = 0; i < like.size(); ++i)
    parts.push_back(o.g.op("slice", o.part("extents"),
                           {o.g.op("shape", o.part("shape"), {like[i]})},
                           {{"starts", Ints{begins[i]}},
                            {"ends", Ints{masks[i] != 0 ? kFar : ends[i]}},
                            {"axes", Ints{0}}}));
  return {o.g.op("reshape", o.name,
                 {o.value("x"), o.g.op("concat", o.part("to"), parts, {{"axis", std::int64_t{0}}})},
                 {{"allowzero", true}})};
}

// With batch axes: the axis is brought behind them, and the axes of the indices back to its place.
Values gathered(Operation& o) {
  const ValueId x = o.value("x"), at = o.i64("at", o.value("indices"));
  const std::int64_t axis = o.integer("axis", 0), batch = o.integer("batch_dims", 0);
  if (batch == 0) return {o.g.op("gather", o.name, {x, at}, {{"axis", axis}})};
  const int rank = o.g.rank(x), from = normalize_axis(axis, rank), places = o.g.rank(at);
  if (batch < 0 || batch > from || batch > places)
    throw bad_input("a gather of axis {} with {} batch axes", axis, batch);
  Ints front;
  for (int a = 0; a < rank; ++a) front.push_back(a);
  std::rotate(front.begin() + batch, front.begin() + from, front.begin() + from + 1);
  const ValueId y = o.g.op("gather_nd", o.part("slices"),
                           {o.g.transpose(o.part("front"), x, front),
                            o.g.op("unsqueeze", o.part("coordinates"), {at}, {{"axes", Ints{-1}}})},
                           {{"batch_dims", batch}});
  // [batch.., indices.., axes before the axis.., axes behind it..]
  const std::int64_t own = places - batch, before = from - batch;
  Ints back;
  for (std::int64_t a = 0; a < batch; ++a) back.push_back(a);
  for (std::int64_t a = 0; a < before; ++a) back.push_back(batch + own + a);
  for (std::int64_t a = 0; a < own; ++a) back.push_back(batch + a);
  for (std::int64_t a = batch + own + before; a < rank - 1 + own; ++a) back.push_back(a);
  return {o.g.transpose(o.name, y, back)};
}

Values tiled(Operation& o) {
  const ValueId x = o.value("x");
  if (o.constant("reps") != nullptr)
    return {o.g.op("tile", o.name, {x}, {{"repeats", o.integers("reps")}})};
  return {o.g.op("tile", o.name, {x, o.i64("reps", o.value("reps"))})};
}

Values joined(Operation& o) {
  Values in = o.values("values");
  for (ValueId& v : in)  // numbers are vectors of one element
    if (o.g.known(v) && o.g.rank(v) == 0) v = o.g.reshape(o.part("vector"), v, {1});
  const std::int64_t axis = o.integer("axis", 0);
  if (!o.flag("interleave", false)) return {o.g.op("concat", o.name, in, {{"axis", axis}})};
  // Element by element in turn: side by side on an axis behind, then merged.
  const int rank = o.g.rank(in[0]), at = normalize_axis(axis, rank);
  Values apart;
  for (const ValueId v : in)
    apart.push_back(o.g.op("unsqueeze", o.part("part"), {v}, {{"axes", Ints{at + 1}}}));
  Ints shape;
  for (int a = 0; a < rank; ++a)
    shape.push_back(a < at ? 0 : a == at ? -1 : known_extent(o.g, in[0], a));
  return {o.g.reshape(
      o.name, o.g.op("concat", o.part("turns"), apart, {{"axis", std::int64_t{at} + 1}}), shape)};
}

}  // namespace

std::vector<ValueId> translate_places(Operation& o) {
  constexpr OperationRow kRows[] = {{"slice_by_index", sliced},
                                    {"slice_by_size", sliced},
                                    {"slice_update", slice_updated},
                                    {"sliding_windows", windows},
                                    {"space_to_batch", space_to_batch},
                                    {"batch_to_space", batch_to_space},
                                    {"reverse_sequence", reverse_sequence},
                                    {"reshape", reshaped},
                                    {"reshape_like", reshaped_like},
                                    {"gather", gathered},
                                    {"tile", tiled},
                                    {"concat", joined}};
  return translate_among(kRows, o);
}

}  // namespace etalon::coreml
