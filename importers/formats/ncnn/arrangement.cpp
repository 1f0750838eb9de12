// Layers that move elements and compute nothing. Source: ncnn's public documentation ("operators").
#include <algorithm>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {

WindowTaps window_taps(const Layer& l) {
  WindowTaps t{};
  t.kw = l.integer(1, 0), t.kh = l.integer(11, t.kw);
  t.dw = l.integer(2, 1), t.dh = l.integer(12, t.dw);
  t.sw = l.integer(3, 1), t.sh = l.integer(13, t.sw);
  t.left = l.integer(4, 0), t.right = l.integer(15, t.left);
  t.top = l.integer(14, t.left), t.bottom = l.integer(16, t.top);
  for (const std::int64_t n : {t.kw, t.kh, t.dw, t.dh, t.sw, t.sh})
    if (n < 1 || n > 256) throw bad_input("a window of {}", n);
  for (const std::int64_t n : {t.left, t.right, t.top, t.bottom})
    if (n < 0 || n > 1 << 20) throw bad_input("a pad of {}", n);
  if (t.kw * t.kh > 1024) throw bad_input("a window of {} x {}", t.kh, t.kw);
  return t;
}

namespace {

ValueId same(const Layer& l, Weights&) { return l.input(); }

// Packing says how elements lie in memory; one that casts is another matter, and overlooked.
ValueId packing(const Layer& l, Weights&) {
  l.integer(0, 1);
  l.integer(1, 0);
  return l.input();
}

// Channels of `groups` rows read by columns.
ValueId shuffle_channels(const Layer& l, Weights&) {
  const ValueId x = l.input();
  const std::int64_t c = l.g.rank(x) < 4 ? 1 : l.g.shape(x)[1], given = l.integer(0, 1);
  if (given < 1 || c % given != 0) throw bad_input("{} channels in {} groups", c, given);
  if (l.g.rank(x) < 4) return x;
  const std::int64_t groups = l.integer(1, 0) != 0 ? c / given : given, each = c / groups;
  Ints from;
  for (std::int64_t i = 0; i < c; ++i) from.push_back(i % groups * each + i / groups);
  return l.g.op("gather", l.name, {x, l.g.constant(l.name + ".from", ints_tensor(from))},
                {{"axis", std::int64_t{1}}});
}

ValueId squeeze(const Layer& l, Weights&) {
  const ValueId x = l.input();
  const int r = l.g.rank(x) - 1;
  Ints axes = l.integers(3);
  for (std::int64_t& a : axes) a = l.axis(a);
  const bool listed = !axes.empty();
  struct Named {
    int id, axis, least;  // the least rank of a sample that has it
  };
  for (const Named& n : {Named{0, r, 1}, Named{1, r - 1, 2}, Named{11, r - 2, 4}, Named{2, 1, 3}})
    if (l.integer(n.id, 0) != 0 && !listed && r >= n.least) axes.push_back(n.axis);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  // Those of another extent than 1 stay.
  std::erase_if(axes, [&](std::int64_t a) { return l.g.shape(x)[static_cast<int>(a)] != 1; });
  if (static_cast<int>(axes.size()) == r) axes.erase(axes.begin());  // a sample has an axis
  return axes.empty() ? x : l.g.op("squeeze", l.name, {x}, {{"axes", axes}});
}

ValueId expand_dims(const Layer& l, Weights&) {
  Ints axes = l.integers(3);
  const std::int64_t r = l.g.rank(l.input()) - 1 + static_cast<std::int64_t>(axes.size());
  if (r > 4) throw bad_input("a sample of rank {}", r);
  for (std::int64_t& a : axes) {
    if (a < -r || a >= r) throw bad_input("axis {} of a sample of rank {}", a, r);
    a = (a < 0 ? a + r : a) + 1;
  }
  return axes.empty() ? l.input() : l.g.op("unsqueeze", l.name, {l.input()}, {{"axes", axes}});
}

ValueId tile(const Layer& l, Weights&) {
  ValueId x = l.input();
  Ints times = l.integers(2);
  const std::int64_t axis = l.integer(0, 0), tiles = l.integer(1, 1);
  const auto r = static_cast<std::size_t>(l.g.rank(x) - 1);
  if (times.empty()) {
    times.assign(r, 1);
    times[static_cast<std::size_t>(l.axis(axis) - 1)] = tiles;
  }
  for (const std::int64_t n : times)
    if (n < 1 || n > 1 << 24) throw bad_input("{} tiles", n);
  if (times.size() > 4) throw bad_input("a sample of rank {}", times.size());
  if (times.size() > r) {
    Ints axes;
    for (std::size_t a = r; a < times.size(); ++a)
      axes.push_back(static_cast<std::int64_t>(a - r) + 1);
    x = l.g.op("unsqueeze", l.name + ".axes", {x}, {{"axes", axes}});
  }
  times.insert(times.begin(), std::max(r, times.size()) + 1 - times.size(), 1);
  return l.g.op("tile", l.name, {x}, {{"repeats", times}});
}

ValueId flip(const Layer& l, Weights&) {
  Ints axes = l.integers(0);
  for (std::int64_t& a : axes) a = l.axis(a);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  if (axes.empty()) return l.input();
  const Ints back(axes.size(), -1), until(axes.size(), -(1LL << 40));
  return l.g.op("slice", l.name, {l.input()},
                {{"starts", back}, {"ends", until}, {"axes", axes}, {"steps", back}});
}

ValueId reorg(const Layer& l, Weights&) {
  return l.g.op("space_to_depth", l.name, {l.input()},
                {{"blocksize", l.integer(0, 1)},
                 {"mode", std::string(l.integer(1, 0) == 0 ? "CRD" : "DCR")}});
}

// Each tap is a slice of the image; they stand side by side behind their channel.
ValueId unfold(const Layer& l, Weights&) {
  const WindowTaps t = window_taps(l);
  ValueId x = l.input();
  if (l.g.rank(x) != 4) throw bad_input("windows of a sample of rank {}", l.g.rank(x) - 1);
  const float value = l.number(18, 0);
  if (t.left + t.right + t.top + t.bottom > 0)
    x = l.g.op(
        "pad", l.name + ".padded", {x},
        {{"pads", Ints{t.top, t.left, t.bottom, t.right}}, {"axes", Ints{2, 3}}, {"value", value}});
  const auto end = [](std::int64_t behind) { return behind == 0 ? INT64_MAX : -behind; };
  std::vector<ValueId> parts;
  for (std::int64_t u = 0; u < t.kh; ++u)
    for (std::int64_t v = 0; v < t.kw; ++v) {
      const std::string name = fmt::format("{}.{}.{}", l.name, u, v);
      const ValueId part =
          l.g.op("slice", name, {x},
                 {{"starts", Ints{u * t.dh, v * t.dw}},
                  {"ends", Ints{end((t.kh - 1 - u) * t.dh), end((t.kw - 1 - v) * t.dw)}},
                  {"axes", Ints{2, 3}},
                  {"steps", Ints{t.sh, t.sw}}});
      parts.push_back(l.g.op("unsqueeze", name + ".tap", {part}, {{"axes", Ints{2}}}));
    }
  const ValueId all = l.g.op("concat", l.name, parts, {{"axis", std::int64_t{2}}});
  const std::int64_t rows = l.g.shape(all)[1] * t.kh * t.kw;
  return l.g.reshape(l.name + ".columns", all, {0, rows, -1});
}

ValueId fold(const Layer& l, Weights&) {
  const WindowTaps t = window_taps(l);
  const std::int64_t w = l.integer(20, 0), h = l.integer(21, w);
  if (w < 1 || h < 1 || w > 1 << 16 || h > 1 << 16) throw bad_input("an image of {} x {}", h, w);
  return l.g.op("col2im", l.name, {l.input()},
                {{"image_shape", Ints{h, w}},
                 {"block_shape", Ints{t.kh, t.kw}},
                 {"strides", Ints{t.sh, t.sw}},
                 {"dilations", Ints{t.dh, t.dw}},
                 {"pads_begin", Ints{t.top, t.left}},
                 {"pads_end", Ints{t.bottom, t.right}}});
}

// Where a sample starts in another along each of its axes: by lists, or by offsets of w, h, d and
// c.
Ints offsets(const Layer& l, const Ints& extents) {
  static constexpr int kIds[] = {0, 1, 13, 2};
  const auto r = static_cast<int>(extents.size());
  Ints out(extents.size(), 0);
  if (l.find(9) == nullptr) {
    for (int axis = 0; axis < r; ++axis) {
      const int inner = r - 1 - axis;  // 0: w
      out[static_cast<std::size_t>(axis)] = l.integer(kIds[axis == 0 && r >= 3 ? 3 : inner], 0);
    }
    return out;
  }
  const Ints starts = l.integers(9);
  Ints axes = l.integers(11);
  if (axes.empty())
    for (std::int64_t a = 0; a < r; ++a) axes.push_back(a);
  if (axes.size() != starts.size())
    throw bad_input("{} starts for {} axes", starts.size(), axes.size());
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(l.axis(axes[i]) - 1);
    const std::int64_t start = starts[i] == -233 ? 0 : starts[i];
    out[axis] = start < 0 ? start + extents[axis] : start;
  }
  return out;
}

// The second sample over a part of the first.
ValueId copy_to(const Layer& l, Weights&) {
  const ValueId x = l.input(), part = l.input(1);
  const Ints whole = l.g.dims(x), dims = l.g.dims(part);
  if (dims.size() != whole.size())
    throw bad_input("{} over a part of {}", to_string(l.g.shape(part)), to_string(l.g.shape(x)));
  const Ints extents(whole.begin() + 1, whole.end()), inner(dims.begin() + 1, dims.end());
  const Ints from = offsets(l, extents);
  if (extents == inner) return part;
  Ints before, behind, axes;
  std::int64_t numbers = 1;
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] < 1 || inner[i] < 1 || from[i] < 0 || from[i] > extents[i] - inner[i])
      throw bad_input("{} elements at {} of {}", inner[i], from[i], extents[i]);
    numbers = checked_mul(numbers, extents[i]);
    before.push_back(from[i]);
    behind.push_back(extents[i] - inner[i] - from[i]);
    axes.push_back(static_cast<std::int64_t>(i) + 1);
  }
  if (numbers > 1 << 26) throw bad_input("a sample of {} elements", numbers);
  Ints pads = before;
  pads.insert(pads.end(), behind.begin(), behind.end());
  const ValueId padded =
      l.g.op("pad", l.name + ".padded", {part}, {{"pads", pads}, {"axes", axes}});
  // Where it lies: ones of its extents, padded alike.
  Tensor inside = Tensor::zeros(DType::boolean, Shape(extents));
  const std::span<std::byte> flags = inside.mutable_bytes();
  for (std::int64_t at = 0; at < numbers; ++at) {
    bool here = true;
    std::int64_t rest = at;
    for (std::size_t i = extents.size(); i-- > 0; rest /= extents[i]) {
      const std::int64_t place = rest % extents[i] - from[i];
      here = here && place >= 0 && place < inner[i];
    }
    flags[static_cast<std::size_t>(at)] = std::byte{here};
  }
  return l.g.op("where", l.name, {l.g.constant(l.name + ".inside", std::move(inside)), padded, x});
}

// A vector along a diagonal of a square of zeros, or a diagonal of a matrix.
ValueId diagonal(const Layer& l, Weights&) {
  const ValueId x = l.input();
  const Ints dims = l.g.dims(x);
  const std::int64_t by = l.integer(0, 0), down = std::max<std::int64_t>(-by, 0),
                     right = std::max<std::int64_t>(by, 0);
  if (by < -(1 << 12) || by > 1 << 12) throw bad_input("the diagonal {}", by);
  if (dims.size() == 2 && dims[1] > 0 && dims[1] < 1 << 12) {
    const std::int64_t n = dims[1], side = n + down + right;
    Ints from(static_cast<std::size_t>(side * side), n);  // the zero behind it
    for (std::int64_t i = 0; i < n; ++i)
      from[static_cast<std::size_t>((i + down) * side + i + right)] = i;
    const ValueId padded = l.g.op("pad", l.name + ".padded", {x}, {{"pads", Ints{0, 0, 0, 1}}});
    const ValueId all = l.g.op("gather", l.name + ".all",
                               {padded, l.g.constant(l.name + ".from", ints_tensor(from))},
                               {{"axis", std::int64_t{1}}});
    return l.g.reshape(l.name, all, {0, side, side});
  }
  if (dims.size() != 3 || dims[1] < 1 || dims[2] < 1)
    throw bad_input("a diagonal of {}", to_string(l.g.shape(x)));
  Ints from;
  for (std::int64_t i = 0; i + down < dims[1] && i + right < dims[2]; ++i)
    from.push_back((i + down) * dims[2] + i + right);
  if (from.empty()) throw bad_input("the diagonal {} of {}", by, to_string(l.g.shape(x)));
  return l.g.op(
      "gather", l.name,
      {l.g.op("flatten", l.name + ".flat", {x}), l.g.constant(l.name + ".from", ints_tensor(from))},
      {{"axis", std::int64_t{1}}});
}

// A row of a table for each number of the sample; numbers beyond the table read its ends.
ValueId embed(const Layer& l, Weights& weights) {
  const std::int64_t out = l.integer(0, 0), rows = l.integer(1, 0), size = l.integer(3, 0);
  if (out < 1 || rows < 1 || size < 1 || size % out != 0 || size / out != rows)
    throw bad_input("{} weights for {} rows of {}", size, rows, out);
  if (l.g.rank(l.input()) != 2) throw bad_input("words of rank {}", l.g.rank(l.input()) - 1);
  const ValueId table = l.g.constant(l.name + ".table", weights.tagged(size, {rows, out}));
  ValueId at = l.g.op("clip", l.name + ".held", {l.input()},
                      {{"min", 0.0F}, {"max", static_cast<float>(rows - 1)}});
  at = l.g.op("cast", l.name + ".index", {at}, {{"to", std::string("i64")}});
  l.g.note("words are numbers of f32 here, ints there");
  const ValueId y = l.g.op("gather", l.name, {table, at});
  if (l.integer(2, 0) == 0) return y;
  return l.g.op("add", l.name + ".sum", {y, l.g.constant(l.name + ".bias", weights.plain(out))});
}

}  // namespace

std::span<const LayerRow> arrangement_rows() {
  static constexpr LayerRow kRows[] = {
      {"CopyTo", copy_to},
      {"DeepCopy", same},
      {"Diag", diagonal},
      {"Embed", embed},
      {"ExpandDims", expand_dims},
      {"Flip", flip},
      {"Fold", fold},
      {"Packing", packing},
      {"Reorg", reorg},
      {"ShuffleChannel", shuffle_channels},
      {"Squeeze", squeeze},
      {"Tile", tile},
      {"Unfold", unfold},
  };
  return kRows;
}

}  // namespace etalon::ncnn
