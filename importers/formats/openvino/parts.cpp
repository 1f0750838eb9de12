// Slices, paddings, splits and tiles. Bounds that hang on the run, or on free extents, become
// inputs of the engine's ops; those that the file fixes become parameters.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/translate.h"

namespace etalon::openvino {
namespace {

constexpr std::int64_t kFar = 1LL << 40;

std::string part(const Layer& l, const char* role) { return l.name + "." + role; }

bool set(const Ints& mask, std::size_t i) { return i < mask.size() && mask[i] != 0; }

// How many numbers an input of rank 1 holds, which has to be known before a run.
std::size_t length_of(const Layer& l, std::size_t i) {
  if (l.known(i)) return l.constant(i).size();
  if (l.rank(i) != 1) throw bad_input("input {} of {} has rank {}", i, l.type, l.rank(i));
  return static_cast<std::size_t>(l.extent(i, 0));
}

// What a strided slice does at each entry of its bounds.
struct Plan {
  Ints entries, axes, steps;                    // entries that cut, their axes
  std::vector<bool> shrinks, from_end, to_end;  // one element; a bound that does not count
  Ints inserted, dropped;                       // axes of the result; of the input
};

Plan plan_of(const Layer& l, std::size_t count) {
  const Ints steps = l.has(3) ? l.constant(3) : Ints{};
  const Ints begin_mask = l.integers("begin_mask"), end_mask = l.integers("end_mask"),
             fresh = l.integers("new_axis_mask"), shrink = l.integers("shrink_axis_mask"),
             ellipsis = l.integers("ellipsis_mask");
  const std::int64_t rank = l.rank(0);
  std::int64_t named = 0;
  for (std::size_t i = 0; i < count; ++i)
    if (!set(fresh, i) && !set(ellipsis, i)) ++named;
  Plan p;
  std::int64_t axis = 0, out = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (set(ellipsis, i)) {
      axis += rank - named;
      out += rank - named;
      continue;
    }
    if (set(fresh, i)) {
      p.inserted.push_back(out++);
      continue;
    }
    if (axis >= rank) throw bad_input("a slice of more than {} axes", rank);
    const bool one = set(shrink, i);
    p.entries.push_back(static_cast<std::int64_t>(i));
    p.axes.push_back(axis);
    p.steps.push_back(one || i >= steps.size() ? 1 : steps[i]);
    p.shrinks.push_back(one);
    p.from_end.push_back(set(begin_mask, i));
    p.to_end.push_back(!one && set(end_mask, i));
    if (one)
      p.dropped.push_back(axis);
    else
      ++out;
    ++axis;
  }
  return p;
}

// The first element, or the place behind the last, in the direction of a step.
std::int64_t first_of(std::int64_t step) { return step > 0 ? 0 : kFar; }
std::int64_t last_of(std::int64_t step) { return step > 0 ? kFar : -kFar; }

ValueId cut_of_known(const Layer& l, const Plan& p) {
  const Ints begins = l.constant(1), ends = l.constant(2);
  Ints from, to;
  for (std::size_t k = 0; k < p.axes.size(); ++k) {
    const auto i = static_cast<std::size_t>(p.entries[k]);
    const std::int64_t begin = p.from_end[k] ? first_of(p.steps[k]) : begins[i];
    from.push_back(begin);
    if (p.shrinks[k])
      to.push_back(begin == -1 ? kFar : begin + 1);
    else
      to.push_back(p.to_end[k] ? last_of(p.steps[k]) : ends[i]);
  }
  return l.g.op("slice", l.name, {l.input(0)},
                {{"starts", from}, {"ends", to}, {"axes", p.axes}, {"steps", p.steps}});
}

ValueId cut_of_computed(const Layer& l, const Plan& p) {
  GraphBuilder& g = l.g;
  const auto numbers = [&](const char* role, const Ints& v) {
    return g.constant(part(l, role), ints_tensor(v));
  };
  const auto truths = [&](const char* role, const std::vector<bool>& v) {
    Ints ones(v.begin(), v.end());
    return g.op("cast", part(l, role), {numbers(role, ones)}, {{"to", std::string("bool")}});
  };
  const auto entries = [&](const char* role, std::size_t input) {
    return g.op("gather", part(l, role), {l.integers_of(input), numbers("entries", p.entries)},
                {{"axis", std::int64_t{0}}});
  };
  Ints first, last;
  for (const std::int64_t step : p.steps) {
    first.push_back(first_of(step));
    last.push_back(last_of(step));
  }
  const ValueId begin =
      g.op("where", part(l, "starts"),
           {truths("from_end", p.from_end), numbers("first", first), entries("begin", 1)});
  const ValueId end = g.op("where", part(l, "ends"),
                           {truths("to_end", p.to_end), numbers("last", last), entries("end", 2)});
  const ValueId one = numbers("one", {1});
  const ValueId behind =
      g.op("where", part(l, "behind"),
           {g.op("equal", part(l, "is_last"), {begin, numbers("minus_one", {-1})}),
            numbers("far", {kFar}), g.op("add", part(l, "next"), {begin, one})});
  const ValueId to = g.op("where", part(l, "to"), {truths("shrinks", p.shrinks), behind, end});
  return g.op("slice", l.name,
              {l.input(0), begin, to, numbers("axes", p.axes), numbers("steps", p.steps)});
}

ValueId strided_slice(const Layer& l) {
  const std::size_t count = length_of(l, 1), behind = length_of(l, 2);
  if (count > 64) throw bad_input("a slice of {} axes", count);
  if (count != behind) throw bad_input("{} begins, {} ends", count, behind);
  const Plan p = plan_of(l, count);
  ValueId y = l.input(0);
  if (!p.axes.empty()) y = l.known(1) && l.known(2) ? cut_of_known(l, p) : cut_of_computed(l, p);
  if (!p.dropped.empty()) y = l.g.op("squeeze", part(l, "squeeze"), {y}, {{"axes", p.dropped}});
  if (!p.inserted.empty()) y = l.g.op("unsqueeze", part(l, "axes"), {y}, {{"axes", p.inserted}});
  return y;
}

ValueId slice(const Layer& l) {
  const bool fixed = l.known(1) && l.known(2) && l.known(3) && (!l.has(4) || l.known(4));
  Ints axes;
  const std::size_t count = length_of(l, 1);
  if (count > static_cast<std::size_t>(kMaxRank)) throw bad_input("a slice of {} axes", count);
  if (!l.has(4))
    for (std::size_t i = 0; i < count; ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (fixed)
    return l.g.op("slice", l.name, {l.input(0)},
                  {{"starts", l.constant(1)},
                   {"ends", l.constant(2)},
                   {"steps", l.constant(3)},
                   {"axes", l.has(4) ? l.constant(4) : axes}});
  const ValueId along =
      l.has(4) ? l.integers_of(4) : l.g.constant(part(l, "axes"), ints_tensor(axes));
  return l.g.op("slice", l.name,
                {l.input(0), l.integers_of(1), l.integers_of(2), along, l.integers_of(3)});
}

// Mirrored with the edge repeated: the elements next to either end, backwards.
ValueId mirrored(const Layer& l, const Ints& begin, const Ints& end) {
  ValueId y = l.input(0);
  for (std::size_t a = 0; a < begin.size(); ++a) {
    if (begin[a] == 0 && end[a] == 0) continue;
    if (begin[a] < 0 || end[a] < 0)
      throw bad_input("a mirror that cuts {} and {}", begin[a], end[a]);
    const auto backwards = [&](const char* role, std::int64_t from, std::int64_t to) {
      return l.g.op("slice", part(l, role), {y},
                    {{"starts", Ints{from}},
                     {"ends", Ints{to}},
                     {"axes", Ints{static_cast<std::int64_t>(a)}},
                     {"steps", Ints{-1}}});
    };
    std::vector<ValueId> parts;
    if (begin[a] > 0) parts.push_back(backwards("before", begin[a] - 1, -kFar));
    parts.push_back(y);
    if (end[a] > 0) parts.push_back(backwards("behind", -1, -1 - end[a]));
    y = l.g.op("concat", part(l, "mirrored"), parts, {{"axis", static_cast<std::int64_t>(a)}});
  }
  return y;
}

ValueId pad(const Layer& l) {
  const std::string mode = l.text("pad_mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "symmetric")
    throw bad_input("padding {} is not supported", printable(mode));
  const bool fixed = l.known(1) && l.known(2);
  if (mode == "symmetric") {
    if (!fixed) throw bad_input("a symmetric padding whose extents hang on the run");
    return mirrored(l, l.constant(1), l.constant(2));
  }
  const bool with = l.has(3) && mode == "constant";
  const Tensor* value = with ? l.g.constant_of(l.input(3)) : nullptr;
  const bool number = value != nullptr && value->dtype() == DType::f32 && value->numel() == 1;
  Fields f{{"mode", mode}};
  if (number) f.emplace_back("value", l.constant_number(3));
  Ints pads;
  if (fixed) {
    pads = l.constant(1);
    const Ints end = l.constant(2);
    pads.insert(pads.end(), end.begin(), end.end());
    if (!with || number) {
      f.emplace_back("pads", pads);
      return l.g.op("pad", l.name, {l.input(0)}, f);
    }
  }
  std::vector<ValueId> in{
      l.input(0), fixed ? l.g.constant(part(l, "pads"), ints_tensor(pads))
                        : l.g.op("concat", part(l, "pads"), {l.integers_of(1), l.integers_of(2)},
                                 {{"axis", std::int64_t{0}}})};
  if (with && !number) in.push_back(l.input(3));
  return l.g.op("pad", l.name, in, f);
}

// Lengths of which one may be -1: what is left.
ValueId lengths(const Layer& l, std::int64_t axis) {
  GraphBuilder& g = l.g;
  const auto number = [&](const char* role, std::int64_t v) {
    return g.constant(part(l, role), ints_tensor({v}));
  };
  const ValueId given = l.integers_of(2), zero = number("zero", 0);
  const ValueId sum =
      g.op("reduce_sum", part(l, "sum"), {g.op("max", part(l, "held"), {given, zero})},
           {{"axes", Ints{0}}, {"keepdims", true}});
  const std::int64_t a = normalize_axis(axis, l.rank(0));
  const ValueId all =
      g.op("shape", part(l, "extent"), {l.input(0)}, {{"start", a}, {"end", a + 1}});
  return g.op("where", part(l, "lengths"),
              {g.op("less", part(l, "open"), {given, zero}),
               g.op("sub", part(l, "left"), {all, sum}), given});
}

std::vector<ValueId> split(const Layer& l) {
  const Ints axis = l.constant(1);
  if (axis.size() != 1) throw bad_input("{} axes of a split", axis.size());
  Fields f{{"axis", axis[0]}};
  std::vector<ValueId> in{l.input(0)};
  if (l.type == "Split") {
    f.emplace_back("num_outputs", static_cast<std::int64_t>(l.outputs));
  } else {
    const std::size_t count = length_of(l, 2);
    if (count != l.outputs) throw bad_input("{} sizes, {} outputs", count, l.outputs);
    Ints sizes = l.known(2) ? l.constant(2) : Ints{-1};
    const Ints dims = l.dims(0);
    const std::int64_t all =
        dims[static_cast<std::size_t>(normalize_axis(axis[0], static_cast<int>(dims.size())))];
    if (l.known(2) && all >= 0) {
      std::int64_t left = all;
      for (const std::int64_t s : sizes) left -= std::max<std::int64_t>(s, 0);
      for (std::int64_t& s : sizes)
        if (s < 0) s = left;
    }
    if (std::ranges::all_of(sizes, [](std::int64_t s) { return s >= 0; }))
      f.emplace_back("split", sizes);
    else
      in.push_back(lengths(l, axis[0]));
  }
  return l.g.nodes("split", l.name, in, make_params(get_op("split"), f), l.outputs);
}

ValueId tile(const Layer& l) {
  if (l.known(1) && l.g.known(l.input(0))) {
    // The shorter of extents and repeats begins with ones.
    Ints repeats = l.constant(1);
    const auto rank = static_cast<std::size_t>(l.rank(0));
    ValueId x = l.input(0);
    if (repeats.size() > rank) {
      Ints axes;
      for (std::size_t i = 0; i < repeats.size() - rank; ++i)
        axes.push_back(static_cast<std::int64_t>(i));
      x = l.g.op("unsqueeze", part(l, "axes"), {x}, {{"axes", axes}});
    }
    if (repeats.size() < rank) repeats.insert(repeats.begin(), rank - repeats.size(), 1);
    return l.g.op("tile", l.name, {x}, {{"repeats", repeats}});
  }
  if (static_cast<int>(length_of(l, 1)) != l.rank(0))
    throw bad_input("{} repeats of rank {}", length_of(l, 1), l.rank(0));
  return l.g.op("tile", l.name, {l.input(0), l.integers_of(1)});
}

}  // namespace

std::vector<ValueId> translate_part(const Layer& l) {
  if (l.type == "StridedSlice") return {strided_slice(l)};
  if (l.type == "Slice") return {slice(l)};
  if (l.type == "Pad") return {pad(l)};
  if (l.type == "Split" || l.type == "VariadicSplit") return split(l);
  if (l.type == "Tile") return {tile(l)};
  return {};
}

}  // namespace etalon::openvino
