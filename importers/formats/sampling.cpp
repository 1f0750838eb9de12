#include "importers/formats/sampling.h"

#include <vector>

#include "engine/core/error.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace {

constexpr std::int64_t kMostPixels = 1 << 24;

// One axis: for each tap its place (an integer, as a float) and its weight; kAbsent: 1.
struct Tap {
  ValueId place = kAbsent, weight = kAbsent;
};

class Sampling {
 public:
  Sampling(GraphBuilder& g, std::string name, DType type, const GridSampling& how)
      : g_(g), name_(std::move(name)), type_(type), how_(how) {}

  ValueId op(const char* what, const std::vector<ValueId>& in, const Fields& f = {}) const {
    return g_.op(what, name_ + "." + what, in, f);
  }
  ValueId number(double v) const { return g_.constant(name_ + ".number", scalar_of(type_, v)); }
  ValueId plus(ValueId x, double v) const { return op("add", {x, number(v)}); }
  ValueId times(ValueId x, double v) const { return op("mul", {x, number(v)}); }

  std::vector<Tap> taps(ValueId grid, std::int64_t extent) const {
    const auto n = static_cast<double>(extent);
    const ValueId beyond = plus(grid, 1);
    ValueId x =
        how_.corners ? times(times(beyond, 0.5), n - 1) : times(plus(times(beyond, n), -1), 0.5);
    if (how_.mode == GridSampling::Mode::cubic) {
      const ValueId first = op("floor", {x}), f = op("sub", {x, first}),
                    r = op("sub", {number(1), f});
      return {tap(plus(first, -1), far(plus(f, 1)), n), tap(first, near(f), n),
              tap(plus(first, 1), near(r), n), tap(plus(first, 2), far(plus(r, 1)), n)};
    }
    x = inside(x, n);
    if (how_.mode == GridSampling::Mode::nearest) return {masked(op("round", {x}), kAbsent, n)};
    const ValueId first = op("floor", {x}), f = op("sub", {x, first}), second = plus(first, 1);
    return {masked(first, op("sub", {second, x}), n), masked(second, f, n)};
  }

 private:
  ValueId held(ValueId x, double n) const {
    return op("min", {op("max", {x, number(0)}), number(n - 1)});
  }
  // Outside of it a place stays where zeros lie outside.
  ValueId inside(ValueId x, double n) const {
    if (how_.outside == GridSampling::Outside::zeros) return x;
    if (how_.outside == GridSampling::Outside::border) return held(x, n);
    const double low = how_.corners ? 0 : -0.5, span = how_.corners ? n - 1 : n;
    if (span == 0) return times(x, 0);
    // To and fro between the edges: the distance from the first, modulo twice the span.
    const ValueId t = op("mod", {op("abs", {plus(x, -low)}), number(2 * span)}, {{"fmod", true}});
    const ValueId back = op("min", {t, op("sub", {number(2 * span), t})});
    return held(plus(back, low), n);
  }
  Tap tap(ValueId place, ValueId weight, double n) const {
    return masked(inside(place, n), weight, n);
  }
  Tap masked(ValueId place, ValueId weight, double n) const {
    if (how_.outside != GridSampling::Outside::zeros) return {held(place, n), weight};
    const ValueId kept = held(place, n), here = op("equal", {kept, place});
    return {kept, op("where", {here, weight == kAbsent ? number(1) : weight, number(0)})};
  }
  // ((a d - 5a) d + 8a) d - 4a
  ValueId far(ValueId d) const {
    const ValueId v = plus(op("mul", {plus(times(d, -0.75), 3.75), d}), -6);
    return plus(op("mul", {v, d}), 3);
  }
  // ((a + 2) d - (a + 3)) d d + 1
  ValueId near(ValueId d) const {
    return plus(op("mul", {op("mul", {plus(times(d, 1.25), -2.25), d}), d}), 1);
  }

  GraphBuilder& g_;
  std::string name_;
  DType type_;
  GridSampling how_;
};

}  // namespace

ValueId grid_sample(GraphBuilder& g, const std::string& name, ValueId image, ValueId grid,
                    const GridSampling& how) {
  const int axes = g.rank(image) - 2;
  const Ints dims = g.dims(image), points = g.dims(grid);
  if (axes < 1 || axes > 3 || (axes == 3 && how.mode == GridSampling::Mode::cubic) ||
      g.rank(grid) != axes + 2 || points.back() != axes)
    throw bad_input("a grid {} for an image {}", to_string(g.type(grid)), to_string(g.type(image)));
  std::int64_t pixels = 1;
  Ints shape{0, dims[1]};
  for (int i = 0; i < axes; ++i) {
    const std::int64_t n = dims[static_cast<std::size_t>(i) + 2],
                       m = points[static_cast<std::size_t>(i) + 1];
    if (n < 1 || m < 1 || dims[1] < 1 || n > kMostPixels / pixels)
      throw bad_input("an image of unknown or too many pixels is sampled");
    pixels *= n;
    shape.push_back(m);
  }
  const DType type = g.dtype(image);
  if (g.dtype(grid) != type)
    grid = g.op("cast", name + ".grid", {grid}, {{"to", std::string(etalon::name(type))}});
  const Sampling s(g, name, type, how);
  const ValueId flat = g.reshape(name + ".pixels", image, {0, 0, pixels}),
                table = g.reshape(name + ".points", grid, {0, -1, axes});
  // Place in the flat image and weight of every combination of taps, axis by axis.
  std::vector<Tap> met{Tap{}};
  for (int i = 0; i < axes; ++i) {
    const auto extent = dims[static_cast<std::size_t>(i) + 2];
    const ValueId which = g.constant(name + ".which", ints_tensor({axes - 1 - i}).reshaped({}));
    const ValueId at = s.op("gather", {table, which}, {{"axis", std::int64_t{2}}});
    std::vector<Tap> next;
    for (const Tap& t : s.taps(at, extent))
      for (const Tap& m : met)
        next.push_back({m.place == kAbsent
                            ? t.place
                            : s.op("add", {s.times(m.place, static_cast<double>(extent)), t.place}),
                        m.weight == kAbsent   ? t.weight
                        : t.weight == kAbsent ? m.weight
                                              : s.op("mul", {m.weight, t.weight})});
    met = std::move(next);
  }
  ValueId sum = kAbsent;
  for (const Tap& m : met) {
    const ValueId place = s.op("cast", {m.place}, {{"to", std::string("i64")}});
    const ValueId one = s.op("unsqueeze", {place}, {{"axes", Ints{1}}});
    // The same places in every channel.
    const ValueId all = s.op("expand", {one}, {{"shape", Ints{1, dims[1], 1}}});
    ValueId v = s.op("gather_elements", {flat, all}, {{"axis", std::int64_t{2}}});
    if (m.weight != kAbsent)
      v = s.op("mul", {v, s.op("unsqueeze", {m.weight}, {{"axes", Ints{1}}})});
    sum = sum == kAbsent ? v : s.op("add", {sum, v});
  }
  g.note("A grid's samples are weighted gathers, each step rounds.");
  return g.reshape(name, sum, shape);
}

ValueId affine_grid(GraphBuilder& g, const std::string& name, ValueId theta, const Ints& extents,
                    bool corners) {
  const auto axes = static_cast<std::int64_t>(extents.size());
  const Ints dims = g.dims(theta);
  if (axes < 2 || axes > 3 || dims.size() != 3 || dims[1] != axes || dims[2] != axes + 1)
    throw bad_input("affine maps {} of a grid of {} axes", to_string(g.type(theta)), axes);
  std::int64_t points = 1;
  Ints shape{0};
  for (const std::int64_t n : extents) {
    if (n < 1 || n > kMostPixels / 4 / points)
      throw bad_input("a grid of {} points along an axis", n);
    points *= n;
    shape.push_back(n);
  }
  shape.push_back(axes);
  // Rows (x, y, .., 1) of the even grid.
  Tensor base = Tensor::uninitialized(g.dtype(theta), {points, axes + 1});
  for (std::int64_t p = 0; p < points; ++p) {
    std::int64_t rest = p;
    for (std::int64_t a = axes - 1; a >= 0; --a) {
      const std::int64_t n = extents[static_cast<std::size_t>(a)], i = rest % n;
      rest /= n;
      const auto d = static_cast<double>(n);
      const double at = n == 1    ? 0
                        : corners ? -1 + 2 * static_cast<double>(i) / (d - 1)
                                  : (2 * static_cast<double>(i) + 1) / d - 1;
      store_from_double(base.dtype(), base.mutable_bytes().data(), p * (axes + 1) + axes - 1 - a,
                        at);
    }
    store_from_double(base.dtype(), base.mutable_bytes().data(), p * (axes + 1) + axes, 1);
  }
  const ValueId y = g.op("matmul", name + ".mapped",
                         {g.constant(name + ".base", std::move(base)),
                          g.transpose(name + ".theta", theta, {0, 2, 1})});
  return g.reshape(name, y, shape);
}

}  // namespace etalon
