// Where the extents of one input decide what becomes of another: operands of different rank, and a
// crop. Source: ncnn's public documentation ("binaryop-broadcasting", "operators").
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

constexpr std::int64_t kNone = -233;

// A sample of lower rank stands for the outermost axes of the other one, [c] as [c,1,1] and [c,h]
// as [c,h,1]; only a row whose length is not the other's outermost extent stands innermost.
ValueId widened(const Layer& l, ValueId x, ValueId other) {
  const int more = l.g.rank(other) - l.g.rank(x);
  if (more <= 0) return x;
  const bool innermost =
      l.g.rank(x) == 2 && l.g.shape(x)[1] != 1 && l.g.shape(x)[1] != l.g.shape(other)[1];
  Ints to{0};
  if (innermost) {
    to.insert(to.end(), static_cast<std::size_t>(more), 1);
    to.push_back(-1);
  } else {
    to.insert(to.end(), static_cast<std::size_t>(l.g.rank(x) - 1), 0);
    to.insert(to.end(), static_cast<std::size_t>(more), 1);
  }
  l.g.note("operands of different rank: the lower one stands for the outermost axes");
  return l.g.reshape(fmt::format("{}.{}", l.name, l.g.rank(x) - 1), x, to);
}

// [starts, ends) of axes, as NumPy counts them.
ValueId crop_by_lists(const Layer& l) {
  Ints starts = l.integers(9), ends = l.integers(10), axes = l.integers(11);
  if (axes.empty())
    for (std::size_t i = 0; i < starts.size(); ++i) axes.push_back(static_cast<std::int64_t>(i));
  if (starts.size() != ends.size() || starts.size() != axes.size())
    throw bad_input("{} starts, {} ends and {} axes", starts.size(), ends.size(), axes.size());
  for (std::int64_t& a : axes) a = l.axis(a);
  for (std::int64_t& e : ends)
    if (e == kNone) e = INT64_MAX;
  for (std::int64_t& s : starts)
    if (s == kNone) s = 0;
  return l.g.op("slice", l.name, {l.input()}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
}

}  // namespace

std::pair<ValueId, ValueId> of_one_rank(const Layer& l, ValueId a, ValueId b) {
  return {widened(l, a, b), widened(l, b, a)};
}

// Offsets, extents and what is cut off behind, of w, h, d and c; or the extents of a second input.
ValueId crop(const Layer& l) {
  const ValueId x = l.input();
  if (l.find(9) != nullptr) return crop_by_lists(l);
  struct Ids {
    int from, extent, behind;
  };
  static constexpr Ids kIds[] = {{0, 3, 6}, {1, 4, 7}, {13, 14, 15}, {2, 5, 8}};  // w, h, d, c
  const int r = l.g.rank(x) - 1;
  if (r < 1 || r > 4) throw bad_input("a crop of a sample of rank {}", r);
  const bool by_reference = l.inputs.size() == 2;
  if (by_reference && l.integer(0, 0) == kNone) throw bad_input("offsets that come as an input");
  Ints starts, ends, axes;
  for (int axis = 1; axis <= r; ++axis) {
    const int inner = r - axis;  // 0: w
    const Ids& id = kIds[inner == r - 1 && r >= 3 ? 3 : inner];
    const std::int64_t from = l.integer(id.from, 0), extent = l.integer(id.extent, 0),
                       behind = l.integer(id.behind, 0);
    if (from < 0 || behind < 0 || extent < kNone || extent > 1 << 24 || from > 1 << 24)
      throw bad_input("a crop from {} of {}", from, extent);
    axes.push_back(axis);
    starts.push_back(from);
    // An extent that is not said is all that is left.
    ends.push_back(!by_reference && extent > 0 ? from + extent : behind > 0 ? -behind : INT64_MAX);
  }
  if (!by_reference)
    return l.g.op("slice", l.name, {x}, {{"starts", starts}, {"ends", ends}, {"axes", axes}});
  // To the extents of the reference; channels stay where it has none.
  const ValueId reference = l.input(1);
  const int n = l.g.rank(reference) - 1, first = r - n;  // its axes are the innermost
  if (n < 1 || first < 0) throw bad_input("a reference of rank {} for one of rank {}", n, r);
  const Ints of(starts.begin() + first, starts.end()), which(axes.begin() + first, axes.end());
  const Ints dims = l.g.dims(reference);
  if (std::find(dims.begin() + 1, dims.end(), -1) == dims.end()) {
    Ints until;
    for (std::size_t i = 0; i < of.size(); ++i) {
      until.push_back(of[i] + dims[i + 1]);
      const std::int64_t there = l.g.dims(x)[static_cast<std::size_t>(which[i])];
      if (there >= 0 && until[i] > there)
        throw bad_input("a crop of {} elements from {} on, of {}", dims[i + 1], of[i], there);
    }
    return l.g.op("slice", l.name, {x}, {{"starts", of}, {"ends", until}, {"axes", which}});
  }
  // As they are when the network runs.
  const ValueId extents = l.g.op("shape", l.name + ".extents", {reference});
  const ValueId sample =
      l.g.op("slice", l.name + ".sample", {extents},
             {{"starts", Ints{1}}, {"ends", Ints{INT64_MAX}}, {"axes", Ints{0}}});
  const ValueId from = l.g.constant(l.name + ".from", ints_tensor(of));
  const ValueId to = l.g.op("add", l.name + ".to", {from, sample});
  return l.g.op("slice", l.name, {x, from, to, l.g.constant(l.name + ".axes", ints_tensor(which))});
}

}  // namespace etalon::ncnn
