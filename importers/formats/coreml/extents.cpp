// Layers about shapes: what fills, broadcasts, ranges, reverses, pads, cuts and reshapes, with
// extents in the file or in a value.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/composed.h"
#include "importers/formats/coreml/layers.h"

namespace etalon::coreml {
namespace {

constexpr std::int64_t kFar = 1LL << 40;  // beyond any extent: a slice goes as far as there is

ValueId ints(const NetworkLayer& n, const char* role, const Ints& values) {
  return n.g.constant(n.name + "." + role, ints_tensor(values));
}

ValueId shape_of(const NetworkLayer& n, std::size_t i) {
  return n.g.op("shape", n.name + ".shape", {n.input(i)});
}

ValueId filled(const NetworkLayer& n, float value, ValueId shape) {
  return n.g.op("expand", n.name, {n.number(value), shape});
}

// end, start, step, each from an input where it is one.
ValueId range(const NetworkLayer& n, const PbMessage& p) {
  const auto scalar = [&](std::size_t i, float otherwise) {
    return i < n.inputs.size() ? n.g.reshape(n.name + ".scalar", n.inputs[i], {})
                               : n.number(otherwise);
  };
  const ValueId end = scalar(0, n.message.has("rangeStatic") ? p.number("endValue") : 0.0F);
  return n.g.op("range", n.name,
                {scalar(1, p.number("startValue")), end, scalar(2, p.number("stepSizeValue", 1))});
}

ValueId slice_of(const NetworkLayer& n, ValueId x, std::int64_t begin, std::int64_t end,
                 std::int64_t axis, std::int64_t step = 1) {
  return n.g.op(
      "slice", n.name, {x},
      {{"starts", Ints{begin}}, {"ends", Ints{end}}, {"axes", Ints{axis}}, {"steps", Ints{step}}});
}

ValueId reversed(const NetworkLayer& n, const PbMessage& p) {
  const Ints which = p.integers("reverseDim");
  if (which.size() != static_cast<std::size_t>(n.g.rank(n.input(0))))
    throw bad_input("{} axes of rank {} to reverse", which.size(), n.g.rank(n.input(0)));
  ValueId y = n.input(0);
  for (std::size_t i = 0; i < which.size(); ++i)
    if (which[i] != 0) y = slice_of(n, y, -1, -kFar, static_cast<std::int64_t>(i), -1);
  return y == n.input(0) ? n.g.op("identity", n.name, {y}) : y;
}

// begins from an input; ends, strides from inputs or the file; a mask takes the whole side.
ValueId slice_dynamic(const NetworkLayer& n, const PbMessage& p) {
  const auto rank = static_cast<std::size_t>(n.g.rank(n.input(0)));
  if (n.inputs.size() < 2 || n.inputs.size() > 4)
    throw bad_input("a sliceDynamic of {} inputs is not supported", n.inputs.size());
  const auto flags = [&](const char* field) {
    Ints m = p.integers(field);
    m.resize(rank, 0);
    return m;
  };
  Ints steps = p.integers("strides"), ends = p.integers("endIds");
  steps.resize(rank, 1);
  const Ints begin_mask = flags("beginMasks"), end_mask = flags("endMasks"),
             squeeze = flags("squeezeMasks");
  if (n.inputs.size() < 3 && ends.size() < rank) throw bad_input("{} ends", ends.size());
  ends.resize(rank);
  ValueId begin = n.integers(1), end = n.inputs.size() > 2 ? n.integers(2) : ints(n, "ends", ends);
  const ValueId step = n.inputs.size() > 3 ? n.integers(3) : ints(n, "steps", steps);
  // Where a mask is set, 0 and the far end; of an axis that goes, the one element.
  const auto chosen = [&](const Ints& mask, ValueId yes, ValueId no) {
    if (std::ranges::count(mask, 0) == static_cast<std::ptrdiff_t>(mask.size())) return no;
    Tensor t = Tensor::zeros(DType::boolean, {static_cast<std::int64_t>(mask.size())});
    for (std::size_t i = 0; i < mask.size(); ++i)
      t.mutable_data<Bool>()[i].value = mask[i] != 0 ? 1 : 0;
    return n.g.op("where", n.name + ".masked",
                  {n.g.constant(n.name + ".mask", std::move(t)), yes, no});
  };
  if (n.inputs.size() > 3 && std::ranges::count(begin_mask, 0) + std::ranges::count(end_mask, 0) !=
                                 static_cast<std::ptrdiff_t>(2 * rank))
    throw bad_input("a sliceDynamic with masks whose strides are an input is not supported");
  Ints first(rank), last(rank);
  for (std::size_t i = 0; i < rank; ++i) {
    first[i] = steps[i] > 0 ? 0 : kFar;
    last[i] = steps[i] > 0 ? kFar : -kFar;
  }
  begin = chosen(begin_mask, ints(n, "first", first), begin);
  end = chosen(end_mask, ints(n, "last", last), end);
  const ValueId next = n.g.op("add", n.name + ".next", {begin, ints(n, "one", Ints(rank, 1))});
  // The element behind -1 is the end.
  const ValueId at_end =
      n.g.op("equal", n.name + ".at_end", {next, ints(n, "zero", Ints(rank, 0))});
  end = chosen(squeeze,
               n.g.op("where", n.name + ".one", {at_end, ints(n, "far", Ints(rank, kFar)), next}),
               end);
  Ints axes(rank), gone;
  for (std::size_t i = 0; i < rank; ++i) {
    axes[i] = static_cast<std::int64_t>(i);
    if (squeeze[i] != 0) gone.push_back(axes[i]);
  }
  const ValueId y = n.g.op("slice", n.name, {n.input(0), begin, end, ints(n, "axes", axes), step});
  return gone.empty() ? y : n.g.op("squeeze", n.name + ".squeeze", {y}, {{"axes", gone}});
}

ValueId slice_by_size(const NetworkLayer& n, const PbMessage& p) {
  const std::int64_t size = p.integer("size");
  const ValueId begin = n.g.reshape(n.name + ".begin", n.integers(1), {1});
  const ValueId end = n.g.op("add", n.name + ".end", {begin, ints(n, "size", {size})});
  return n.g.op("slice", n.name, {n.input(0), begin, end, ints(n, "axis", {p.integer("axis")})});
}

ValueId windows(const NetworkLayer& n, const PbMessage& p) {
  const int axis = normalize_axis(p.integer("axis"), n.g.rank(n.input(0)));
  const std::int64_t extent = n.g.dims(n.input(0))[static_cast<std::size_t>(axis)],
                     width = p.integer("windowSize"), step = p.integer("step", 1);
  if (extent < 0) throw bad_input("windows over an axis whose extent is free are not supported");
  Tensor at = axis_windows(extent, width, step);
  return n.g.op("gather", n.name, {n.input(0), n.g.constant(n.name + ".windows", std::move(at))},
                {{"axis", std::int64_t{axis}}});
}

// Amounts as [before, after] of each axis; the op takes those before, then those after.
ValueId constant_pad(const NetworkLayer& n, const PbMessage& p) {
  const auto rank = static_cast<std::size_t>(n.g.rank(n.input(0)));
  const ValueId value = n.number(p.number("value"));
  if (n.inputs.size() > 1) {
    if (p.flag("padToGivenOutputSizeMode"))
      throw bad_input("a constantPad to extents that are an input is not supported");
    const ValueId pairs =
        n.g.reshape(n.name + ".pairs", n.integers(1), {static_cast<std::int64_t>(rank), 2});
    const ValueId pads =
        n.g.reshape(n.name + ".pads", n.g.transpose(n.name + ".turned", pairs, {1, 0}), {-1});
    return n.g.op("pad", n.name, {n.input(0), pads, value});
  }
  const Ints amounts = p.integers("padAmounts");
  if (amounts.size() != 2 * rank)
    throw bad_input("{} amounts of padding for rank {}", amounts.size(), rank);
  Ints pads(2 * rank);
  const Ints dims = n.g.dims(n.input(0));
  for (std::size_t i = 0; i < rank; ++i) {
    pads[i] = amounts[2 * i];
    pads[rank + i] = amounts[2 * i + 1];
    if (!p.flag("padToGivenOutputSizeMode")) continue;
    // One side of each pair says how long the axis becomes, by growing there.
    for (std::int64_t* side : {&pads[i], &pads[rank + i]}) {
      if (*side == 0) continue;
      if (dims[i] < 0)
        throw bad_input("a constantPad of a free extent to {} is not supported", *side);
      *side = std::max<std::int64_t>(*side - dims[i], 0);
    }
  }
  return n.g.op("pad", n.name, {n.input(0)}, {{"pads", pads}, {"value", p.number("value")}});
}

ValueId crop(const NetworkLayer& n, const PbMessage& p) {
  const std::int64_t rank = n.g.rank(n.input(0));
  if (rank < 3) throw bad_input("a crop of rank {}", rank);
  Ints begin, end;
  if (n.inputs.size() > 1) {
    begin = p.integers("offset");
    if (begin.size() != 2) throw bad_input("{} offsets of a crop", begin.size());
    const Ints to = n.g.dims(n.inputs[1]);
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t extent = to[static_cast<std::size_t>(rank) - 2 + i];
      if (extent < 0) throw bad_input("a crop to a free extent is not supported");
      if (begin[i] < 0 || begin[i] > kFar) throw bad_input("a crop from {}", begin[i]);
      end.push_back(begin[i] + extent);
    }
  } else {
    for (const PbMessage& b : p.message("cropAmounts").messages("borderAmounts")) {
      begin.push_back(b.integer("startEdgeSize"));
      const std::int64_t cut = b.integer("endEdgeSize");
      if (begin.back() < 0 || cut < 0) throw bad_input("a crop of {} and {}", begin.back(), cut);
      end.push_back(cut == 0 ? kFar : -cut);
    }
    if (begin.size() != 2) throw bad_input("{} borders of a crop", begin.size());
  }
  return n.g.op("slice", n.name, {n.input(0)},
                {{"starts", begin}, {"ends", end}, {"axes", Ints{rank - 2, rank - 1}}});
}

// Rows m and columns k with m - k <= lower and k - m <= upper; below zero: all.
ValueId band(const NetworkLayer& n, const PbMessage& p) {
  const std::int64_t lower = p.integer("numLower"), upper = p.integer("numUpper");
  ValueId y = n.input(0);
  if (upper >= 0) y = n.g.op("trilu", n.name, {y}, {{"upper", false}, {"k", upper}});
  if (lower >= 0) y = n.g.op("trilu", n.name, {y}, {{"upper", true}, {"k", -lower}});
  return y == n.input(0) ? n.g.op("identity", n.name, {y}) : y;
}

}  // namespace

ValueId translate_extents(const NetworkLayer& n) {
  const PbMessage& l = n.message;
  const auto part = [&](const char* field) { return l.message(field); };
  if (l.has("rangeStatic")) return range(n, part("rangeStatic"));
  if (l.has("rangeDynamic")) return range(n, part("rangeDynamic"));
  if (l.has("fillStatic"))
    return filled(n, part("fillStatic").number("value"),
                  ints(n, "extents", part("fillStatic").integers("targetShape")));
  if (l.has("fillLike")) return filled(n, part("fillLike").number("value"), shape_of(n, 0));
  if (l.has("fillDynamic")) return filled(n, part("fillDynamic").number("value"), n.integers(0));
  if (l.has("getShape")) return n.f32(shape_of(n, 0));
  if (l.has("broadcastToStatic"))
    return n.g.op("expand", n.name, {n.input(0)},
                  {{"shape", part("broadcastToStatic").integers("targetShape")}});
  if (l.has("broadcastToLike")) return n.g.op("expand", n.name, {n.input(0), shape_of(n, 1)});
  if (l.has("broadcastToDynamic")) return n.g.op("expand", n.name, {n.input(0), n.integers(1)});
  if (l.has("reshapeLike")) return n.g.op("reshape", n.name, {n.input(0), shape_of(n, 1)});
  if (l.has("reshapeDynamic")) return n.g.op("reshape", n.name, {n.input(0), n.integers(1)});
  if (l.has("rankPreservingReshape"))
    return n.g.reshape(n.name, n.input(0), part("rankPreservingReshape").integers("targetShape"));
  if (l.has("reverse")) return reversed(n, part("reverse"));
  if (l.has("reverseSeq"))
    return n.g.op("reverse_sequence", n.name, {n.input(0), n.integers(1)},
                  {{"batch_axis", part("reverseSeq").integer("batchAxis")},
                   {"time_axis", part("reverseSeq").integer("sequenceAxis")}});
  if (l.has("slice")) {
    const PbMessage p = part("slice");
    const std::int64_t axis = p.integer("axis");
    if (axis > 2) throw bad_input("a slice of axis {}", axis);
    // An end of 0 can only be that of a slice to the end.
    const std::int64_t end = p.integer("endIndex");
    return slice_of(n, n.input(0), p.integer("startIndex"), end == 0 ? kFar : end, axis - 3,
                    p.integer("stride", 1));
  }
  if (l.has("sliceDynamic")) return slice_dynamic(n, part("sliceDynamic"));
  if (l.has("sliceBySize")) return slice_by_size(n, part("sliceBySize"));
  if (l.has("slidingWindows")) return windows(n, part("slidingWindows"));
  if (l.has("constantPad")) return constant_pad(n, part("constantPad"));
  if (l.has("crop")) return crop(n, part("crop"));
  if (l.has("matrixBandPart")) return band(n, part("matrixBandPart"));
  for (const bool upper : {false, true})
    if (const char* field = upper ? "upperTriangular" : "lowerTriangular"; l.has(field))
      return n.g.op("trilu", n.name, {n.input(0)},
                    {{"upper", upper}, {"k", part(field).integer("k")}});
  if (l.has("sequenceRepeat")) {
    Ints repeats(static_cast<std::size_t>(n.g.rank(n.input(0))), 1);
    if (repeats.size() != 5)
      throw bad_input("a sequenceRepeat of rank {}, expected 5", repeats.size());
    repeats[0] = std::max<std::int64_t>(1, part("sequenceRepeat").integer("nRepetitions", 1));
    return n.g.op("tile", n.name, {n.input(0)}, {{"repeats", repeats}});
  }
  return kAbsent;
}

}  // namespace etalon::coreml
