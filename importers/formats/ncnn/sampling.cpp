// Images read between their pixels: GridSample, DeformableConv2D. A pixel outside is 0. Source:
// ncnn's public documentation ("operators").
#include <span>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

// Ops of f32 with numbers.
struct Formula {
  const Layer& l;
  std::string prefix;

  ValueId op(std::string_view kind, const std::vector<ValueId>& in, const Fields& f = {}) const {
    return l.g.op(kind, fmt::format("{}.{}", prefix, kind), in, f);
  }
  ValueId number(float v) const { return l.g.constant(prefix + ".number", scalar_f32(v)); }
  ValueId add(ValueId a, ValueId b) const { return op("add", {a, b}); }
  ValueId plus(ValueId a, float b) const { return add(a, number(b)); }
  ValueId sub(ValueId a, ValueId b) const { return op("sub", {a, b}); }
  ValueId mul(ValueId a, ValueId b) const { return op("mul", {a, b}); }
  ValueId times(ValueId a, float b) const { return mul(a, number(b)); }
  ValueId held(ValueId x, float most) const {
    return op("clip", {x}, {{"min", 0.0F}, {"max", most}});
  }
};

// One axis of a sampled image: for each tap its place, a whole number as f32, and its weight.
struct Tap {
  ValueId place = kAbsent, weight = kAbsent;  // a weight of kAbsent is 1
};
struct Axis {
  std::int64_t extent = 0;
  std::vector<Tap> taps;
};

std::vector<Tap> linear(const Formula& f, ValueId at) {
  const ValueId first = f.op("floor", {at}), behind = f.sub(at, first);
  return {{first, f.sub(f.number(1), behind)}, {f.plus(first, 1), behind}};
}

// x [N, C, places]: of each axis the taps [N, points], outermost axis first: [N, C, points].
ValueId sampled(const Layer& l, ValueId x, std::span<const Axis> axes, std::size_t next,
                ValueId place, ValueId inside) {
  const Formula f{l, l.name + ".sample"};
  if (next == axes.size()) {
    const auto channels = l.g.shape(x)[1];
    const ValueId known = f.op("where", {inside, place, f.number(0)});  // NaN is no place
    const ValueId index = f.op("unsqueeze", {f.op("cast", {known}, {{"to", std::string("i64")}})},
                               {{"axes", Ints{1}}});
    const ValueId all =
        l.g.op("expand", l.name + ".places",
               {index, l.g.constant(l.name + ".channels", ints_tensor({1, channels, 1}))});
    const ValueId values = f.op("gather_elements", {x, all}, {{"axis", std::int64_t{2}}});
    return f.op("where", {f.op("unsqueeze", {inside}, {{"axes", Ints{1}}}), values, f.number(0)});
  }
  const Axis& axis = axes[next];
  const auto last = static_cast<float>(axis.extent - 1);
  ValueId sum = kAbsent;
  for (const Tap& tap : axis.taps) {
    const ValueId held = f.held(tap.place, last);
    const ValueId here = f.op("equal", {held, tap.place});
    ValueId y = sampled(
        l, x, axes, next + 1,
        place == kAbsent ? held : f.add(f.times(place, static_cast<float>(axis.extent)), held),
        inside == kAbsent ? here : f.op("and", {inside, here}));
    if (tap.weight != kAbsent) y = f.mul(f.op("unsqueeze", {tap.weight}, {{"axes", Ints{1}}}), y);
    sum = sum == kAbsent ? y : f.add(sum, y);
  }
  return sum;
}

// [N, C, places] of an image whose extents the file says.
ValueId flat(const Layer& l, ValueId x) {
  const Ints dims = l.g.dims(x);
  std::int64_t places = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) {
    if (dims[i] < 1) throw bad_input("an image of unknown extents is sampled; its Input says them");
    if (i > 1) places *= dims[i];
  }
  if (places > 1 << 24) throw bad_input("an image of {} pixels is sampled", places);
  return l.g.reshape(l.name + ".pixels", x, {0, 0, places});
}

class Grid {
 public:
  explicit Grid(const Layer& l)
      : f_{l, l.name + ".grid"},
        kind_(l.integer(0, 1)),
        padding_(l.integer(1, 1)),
        corners_(l.integer(2, 0) != 0) {
    if (kind_ < 1 || kind_ > 3 || padding_ < 1 || padding_ > 3)
      throw bad_input("samples of kind {} with padding of kind {}", kind_, padding_);
  }
  bool cubic() const { return kind_ == 3; }

  // Of coordinates from -1 to 1.
  Axis axis(ValueId at, std::int64_t extent) const {
    const auto n = static_cast<float>(extent);
    const ValueId beyond = f_.plus(at, 1);
    ValueId x = corners_ ? f_.times(f_.times(beyond, 0.5F), n - 1)
                         : f_.times(f_.plus(f_.times(beyond, n), -1), 0.5F);
    Axis out{.extent = extent, .taps = {}};
    if (kind_ == 3) {
      // Keys' kernel with a = -3/4; each tap is brought inside by itself.
      const ValueId first = f_.op("floor", {x}), t = f_.sub(x, first);
      const ValueId far = outer(f_.plus(t, 1)), near = inner(t),
                    behind = inner(f_.sub(f_.number(1), t));
      const ValueId rest = f_.sub(f_.sub(f_.sub(f_.number(1), far), near), behind);
      const ValueId weights[] = {far, near, behind, rest};
      for (int i = 0; i < 4; ++i)
        out.taps.push_back({inside(f_.plus(first, static_cast<float>(i - 1)), n), weights[i]});
      return out;
    }
    x = inside(x, n);
    if (kind_ == 2)
      out.taps = {{f_.op("floor", {f_.plus(x, 0.5F)}), kAbsent}};
    else
      out.taps = linear(f_, x);
    return out;
  }

 private:
  ValueId reflected(ValueId x, float high) const {
    const ValueId v = f_.op("abs", {f_.plus(f_.op("abs", {x}), -high)});
    return f_.sub(f_.number(high), v);
  }
  // Reflected once, not as often as it takes.
  ValueId inside(ValueId x, float n) const {
    if (padding_ == 2) return f_.held(x, n - 1);
    if (padding_ == 1) return x;
    if (corners_) return reflected(x, n - 1);
    return f_.held(f_.plus(reflected(f_.plus(x, 0.5F), n), -0.5F), n - 1);
  }
  // a t^3 - 5a t^2 + 8a t - 4a, and (a + 2) t^3 - (a + 3) t^2 + 1.
  ValueId outer(ValueId t) const {
    constexpr float a = -0.75F;
    const ValueId inner_sum = f_.plus(f_.mul(f_.plus(f_.times(t, a), -5 * a), t), 8 * a);
    return f_.plus(f_.mul(inner_sum, t), -4 * a);
  }
  ValueId inner(ValueId t) const {
    constexpr float a = -0.75F;
    return f_.plus(f_.mul(f_.mul(f_.plus(f_.times(t, a + 2), -(a + 3)), t), t), 1);
  }

  Formula f_;
  std::int64_t kind_, padding_;
  bool corners_;
};

// The grid's numbers of a point stand last, or with permute_fusion first; x is the innermost axis.
ValueId grid_sample(const Layer& l, Weights&) {
  const Grid grid(l);
  const bool first = l.integer(3, 0) != 0;
  const ValueId x = l.input(), at = l.input(1);
  const int axes = l.g.rank(x) - 2;
  if (axes < 2 || axes > 3 || (axes == 3 && grid.cubic()))
    throw bad_input("samples of a sample of rank {}", axes + 1);
  const Ints dims = l.g.dims(x), points = l.g.dims(at);
  if (l.g.rank(at) != axes + 2 || points[first ? 1 : static_cast<std::size_t>(axes) + 1] != axes)
    throw bad_input("a grid {} for an image {}", to_string(l.g.shape(at)), to_string(l.g.shape(x)));
  Ints shape{-1, dims[1]};
  for (int i = 0; i < axes; ++i) {
    const std::int64_t n = points[static_cast<std::size_t>(i) + (first ? 2 : 1)];
    if (n < 1) throw bad_input("a grid of unknown extents; its Input says them");
    shape.push_back(n);
  }
  const ValueId image = flat(l, x);
  const ValueId table =
      l.g.reshape(l.name + ".points", at, first ? Ints{0, axes, -1} : Ints{0, -1, axes});
  std::vector<Axis> taps;
  for (int i = 0; i < axes; ++i) {
    const ValueId which = l.g.constant(l.name + ".which", ints_tensor({axes - 1 - i}).reshaped({}));
    const ValueId coordinate = l.g.op("gather", fmt::format("{}.coordinate{}", l.name, i),
                                      {table, which}, {{"axis", std::int64_t{first ? 1 : 2}}});
    taps.push_back(grid.axis(coordinate, dims[static_cast<std::size_t>(i) + 2]));
  }
  l.g.note("samples are taken by gathers; a reflection at the border is made once");
  return l.g.reshape(l.name, sampled(l, image, taps, 0, kAbsent, kAbsent), shape);
}

// Each tap of each window is read where its offset moves it to, and weighed by its mask.
ValueId deformable(const Layer& l, Weights& weights) {
  const std::int64_t out = l.integer(0, 0), size = l.integer(6, 0);
  const WindowTaps t = window_taps(l);
  const ValueId x = l.input(), offsets = l.input(1);
  const Ints dims = l.g.dims(x);
  if (l.g.rank(x) != 4 || l.g.rank(offsets) != 4)
    throw bad_input("deformable windows of {} moved by {}", to_string(l.g.shape(x)),
                    to_string(l.g.shape(offsets)));
  const ValueId image = flat(l, x);
  const std::int64_t c = dims[1], h = dims[2], w = dims[3], k = t.kw * t.kh,
                     oh = (h + t.top + t.bottom - t.dh * (t.kh - 1) - 1) / t.sh + 1,
                     ow = (w + t.left + t.right - t.dw * (t.kw - 1) - 1) / t.sw + 1;
  if (out < 1 || size != checked_mul(checked_mul(out, c), k))
    throw bad_input("{} weights for {} filters of {} x {} over {} channels", size, out, t.kh, t.kw,
                    c);
  if (oh < 1 || ow < 1 || k * oh * ow > 1 << 22)
    throw bad_input("{} x {} windows of {} x {}", oh, ow, t.kh, t.kw);
  const std::int64_t places = oh * ow;
  if (l.g.shape(offsets) != Shape{l.g.shape(x)[0], 2 * k, oh, ow})
    throw bad_input("offsets {} for {} x {} windows", to_string(l.g.shape(offsets)), oh, ow);
  Tensor rows = Tensor::uninitialized(DType::f32, {k, places}), columns = rows.clone();
  for (std::int64_t tap = 0; tap < k; ++tap)
    for (std::int64_t p = 0; p < places; ++p) {
      const auto at = static_cast<std::size_t>(tap * places + p);
      rows.mutable_data<float>()[at] =
          static_cast<float>(p / ow * t.sh - t.top + tap / t.kw * t.dh);
      columns.mutable_data<float>()[at] =
          static_cast<float>(p % ow * t.sw - t.left + tap % t.kw * t.dw);
    }
  const Formula f{l, l.name + ".windows"};
  const ValueId moves = l.g.reshape(l.name + ".offsets", offsets, {0, k, 2, places});
  const auto axis = [&](std::int64_t which, Tensor base, std::int64_t extent) {
    const ValueId move =
        l.g.op("gather", fmt::format("{}.offset{}", l.name, which),
               {moves, l.g.constant(l.name + ".which", ints_tensor({which}).reshaped({}))},
               {{"axis", std::int64_t{2}}});
    const ValueId at = f.add(l.g.constant(l.name + ".base", std::move(base)), move);
    return Axis{.extent = extent,
                .taps = linear(f, l.g.reshape(l.name + ".at", at, {0, k * places}))};
  };
  const Axis axes[] = {axis(0, std::move(rows), h), axis(1, std::move(columns), w)};
  ValueId taps = sampled(l, image, axes, 0, kAbsent, kAbsent);
  if (l.inputs.size() > 2) {
    if (l.g.shape(l.input(2)) != Shape{l.g.shape(x)[0], k, oh, ow})
      throw bad_input("a mask {} for {} x {} windows", to_string(l.g.shape(l.input(2))), oh, ow);
    taps = f.mul(taps, l.g.reshape(l.name + ".mask", l.input(2), {0, 1, k * places}));
  }
  const ValueId filters = l.g.constant(l.name + ".weight", weights.tagged(size, {out, c * k}));
  const ValueId terms = l.g.reshape(l.name + ".terms", taps, {0, c * k, places});
  ValueId y = l.g.op("matmul", l.name + ".sums", {filters, terms});
  if (l.integer(5, 0) != 0)
    y = f.add(y, l.g.constant(l.name + ".bias", weights.plain(out).reshaped({out, 1})));
  l.g.note("deformable windows are read by gathers, then multiplied");
  return activated(l, l.g.reshape(l.name, y, {0, out, oh, ow}), 9, 10);
}

}  // namespace

std::span<const LayerRow> sampling_rows() {
  static constexpr LayerRow kRows[] = {{"DeformableConv2D", deformable},
                                       {"GridSample", grid_sample}};
  return kRows;
}

}  // namespace etalon::ncnn
