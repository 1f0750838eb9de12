#include "importers/formats/regions.h"

#include <limits>

#include "engine/core/error.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace {

class Aligning {
 public:
  Aligning(const Steps& steps, ValueId x, ValueId regions, const RegionAlign& how)
      : s_(steps), how_(how), extents_(op("shape", {x})) {
    const auto moved = [&](ValueId v, float by) {
      return by == 0 ? v : op("add", {v, number(by)});
    };
    corners_ = moved(op("mul", {moved(regions, how.before), number(how.scale)}), how.behind);
  }

  ValueId op(std::string_view kind, std::vector<ValueId> in, const Fields& f = {}) const {
    return s_.op(kind, std::move(in), f);
  }
  ValueId number(float v) const { return s_.constant(scalar_f32(v)); }
  ValueId ints(const Ints& v) const { return s_.constant(ints_tensor(v)); }
  ValueId unsqueezed(ValueId v, const Ints& axes) const {
    return op("unsqueeze", {v}, {{"axes", axes}});
  }
  ValueId cast(ValueId v, const char* to) const {
    return op("cast", {v}, {{"to", std::string(to)}});
  }
  // An extent of x, [1] i64.
  ValueId extent(std::int64_t axis) const {
    return op("slice", {extents_},
              {{"starts", Ints{axis}}, {"ends", Ints{axis + 1}}, {"axes", Ints{0}}});
  }

  // One axis: the pixels before and behind each sample [R, cells * samples] i64, the weight of the
  // latter, which samples count, and how many there are of a cell, [R,1] where that hangs on it.
  struct Samples {
    ValueId first = kAbsent, second = kAbsent, share = kAbsent, counts = kAbsent, used = kAbsent,
            each = kAbsent, near = kAbsent;
  };
  Samples along(std::int64_t side, std::int64_t cells, std::int64_t axis) const {
    const ValueId from = corner(side), length = length_of(from, corner(side + 2));
    const ValueId cell = op("div", {length, number(static_cast<float>(cells))});
    Samples s;
    // Places in cells: whole cells, then the share of one.
    ValueId places = kAbsent;
    if (how_.samples > 0) {
      Tensor t = Tensor::uninitialized(DType::f32, {cells * how_.samples});
      for (std::int64_t i = 0; i < cells * how_.samples; ++i) {
        const std::int64_t cell_before = i / how_.samples, within = i % how_.samples;
        t.mutable_data<float>()[static_cast<std::size_t>(i)] =
            static_cast<float>(cell_before) +
            (static_cast<float>(within) + 0.5F) / static_cast<float>(how_.samples);
      }
      places = s_.constant(std::move(t));
      s.each = ints({how_.samples});
    } else {
      s.counts = op("ceil", {cell});
      const ValueId most =
          cast(op("max", {op("reduce_max", {s.counts}, {{"keepdims", false}}), number(1)}), "i64");
      s.each = unsqueezed(most, {0});
      const ValueId i = cast(op("range", {scalar(0), most, scalar(1)}), "f32");  // [M]
      const ValueId wide = unsqueezed(op("max", {s.counts, number(1)}), {2});    // [R,1,1]
      const ValueId shares = op("div", {op("add", {i, number(0.5F)}), wide});    // [R,1,M]
      Tensor t = Tensor::uninitialized(DType::f32, {1, cells, 1});
      for (std::int64_t b = 0; b < cells; ++b)
        t.mutable_data<float>()[static_cast<std::size_t>(b)] = static_cast<float>(b);
      const ValueId whole = s_.constant(std::move(t));
      places = flat(op("add", {whole, shares}));
      const ValueId used = op("less", {i, unsqueezed(s.counts, {2})});  // [R,1,M]
      s.used = flat(op("and", {used, op("greater_or_equal", {whole, number(0)})}));
    }
    const ValueId at = op("add", {from, op("mul", {cell, places})});
    const ValueId end = cast(extent(axis), "f32"), last = op("sub", {end, number(1)});
    s.near = op("and", {op("greater_or_equal", {at, number(-1)}), op("less_or_equal", {at, end})});
    const ValueId held = op("min", {op("max", {at, number(0)}), last});
    const ValueId low = op("floor", {held});
    s.first = cast(low, "i64");
    s.second = cast(op("min", {op("add", {low, number(1)}), last}), "i64");
    s.share = op("sub", {held, low});
    return s;
  }

  ValueId pooled(ValueId x, ValueId images) const {
    const bool largest = how_.pool != RegionAlign::Pool::mean;
    const Samples y = along(1, how_.rows, 2), q = along(0, how_.columns, 3);
    const ValueId pixels = op("flatten", {op("transpose", {x}, {{"perm", Ints{0, 2, 3, 1}}})},
                              {{"axis", std::int64_t{3}}});
    const ValueId image = unsqueezed(images, {1, 2}), h = extent(2), w = extent(3);
    const auto row = [&](ValueId v) { return unsqueezed(v, {2}); };
    const auto column = [&](ValueId v) { return unsqueezed(v, {1}); };
    const auto tap = [&](ValueId r, ValueId c, ValueId wr, ValueId wc) {
      const ValueId line = op("mul", {op("add", {op("mul", {image, h}), row(r)}), w});
      const ValueId v =
          op("gather", {pixels, op("add", {line, column(c)})}, {{"axis", std::int64_t{0}}});
      return op("mul", {v, unsqueezed(op("mul", {row(wr), column(wc)}), {3})});
    };
    const ValueId one = number(1);
    const ValueId y0 = op("sub", {one, y.share}), q0 = op("sub", {one, q.share});
    const char* join = how_.pool == RegionAlign::Pool::largest_part ? "max" : "add";
    ValueId v = tap(y.first, q.first, y0, q0);
    v = op(join, {v, tap(y.first, q.second, y0, q.share)});
    v = op(join, {v, tap(y.second, q.first, y.share, q0)});
    v = op(join, {v, tap(y.second, q.second, y.share, q.share)});
    const auto both = [&](ValueId r, ValueId c) {
      return unsqueezed(op("and", {row(r), column(c)}), {3});
    };
    v = op("where", {both(y.near, q.near), v, number(0)});
    if (y.used != kAbsent)
      v = op("where", {both(y.used, q.used), v,
                       number(largest ? -std::numeric_limits<float>::infinity() : 0)});
    // [R, rows, samples, columns, samples, C]
    const ValueId shape = op(
        "concat", {ints({0}), ints({how_.rows}), y.each, ints({how_.columns}), q.each, ints({-1})},
        {{"axis", std::int64_t{0}}});
    const Fields inner{{"axes", Ints{2, 4}}, {"keepdims", false}};
    v = op(largest ? "reduce_max" : "reduce_sum", {op("reshape", {v, shape})}, inner);
    if (y.counts != kAbsent) {
      const ValueId count = unsqueezed(op("mul", {y.counts, q.counts}), {2, 3});  // [R,1,1,1]
      if (largest)
        v = op("where", {op("greater", {count, number(0)}), v, number(0)});
      else
        v = op("div", {v, op("max", {count, one})});
    } else if (!largest) {
      v = op("div", {v, number(static_cast<float>(how_.samples * how_.samples))});
    }
    return op("transpose", {v}, {{"perm", Ints{0, 3, 1, 2}}});
  }

 private:
  ValueId scalar(std::int64_t v) const { return s_.constant(Tensor::of<std::int64_t>({}, {v})); }
  ValueId flat(ValueId v) const { return op("reshape", {v}, {{"shape", Ints{0, -1}}}); }
  ValueId corner(std::int64_t i) const {  // [R,1]
    return op("slice", {corners_}, {{"starts", Ints{i}}, {"ends", Ints{i + 1}}, {"axes", Ints{1}}});
  }
  ValueId length_of(ValueId from, ValueId to) const {
    const ValueId length = op("sub", {to, from});
    return how_.least_one ? op("max", {length, number(1)}) : length;
  }

  const Steps& s_;
  const RegionAlign& how_;
  ValueId extents_, corners_ = kAbsent;
};

}  // namespace

ValueId roi_align(const Steps& steps, ValueId x, ValueId regions, ValueId images,
                  const RegionAlign& how) {
  constexpr std::int64_t kMost = 256;
  if (how.rows < 1 || how.columns < 1 || how.rows > kMost || how.columns > kMost)
    throw bad_input("a region in {} x {} cells", how.rows, how.columns);
  if (how.samples < 0 || how.samples > kMost) throw bad_input("{} samples of a cell", how.samples);
  return Aligning(steps, x, regions, how).pooled(x, images);
}

}  // namespace etalon
