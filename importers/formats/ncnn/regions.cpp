// Pooling of a region of interest [x1, y1, x2, y2] that comes with each image: what belongs to a
// cell is a mask, or a weight, of rows and one of columns. Source: ncnn's public documentation
// ("operators").
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

struct Region {
  const Layer& l;
  ValueId x;
  std::int64_t channels, h, w, rows, columns;
  float scale;

  ValueId op(std::string_view kind, const std::vector<ValueId>& in, const Fields& f = {}) const {
    return l.g.op(kind, fmt::format("{}.{}", l.name, kind), in, f);
  }
  ValueId number(float v) const { return l.g.constant(l.name + ".number", scalar_f32(v)); }
  // A corner of the region, [N, 1].
  ValueId corner(std::int64_t i) const {
    const ValueId roi = l.g.reshape(l.name + ".region", l.input(1), {0, 4});
    return op("slice", {roi}, {{"starts", Ints{i}}, {"ends", Ints{i + 1}}, {"axes", Ints{1}}});
  }
  ValueId count(std::int64_t n) const {  // 0, 1, ... n - 1
    Tensor t = Tensor::uninitialized(DType::f32, {n});
    for (std::int64_t i = 0; i < n; ++i)
      t.mutable_data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(i);
    return l.g.constant(l.name + ".count", std::move(t));
  }
  // Halves away from zero; the number below 1/2 stays below 1.
  ValueId rounded(ValueId v) const {
    const ValueId whole =
        op("floor", {op("add", {op("abs", {v}), number(std::nextafter(0.5F, 0.0F))})});
    return op("mul", {op("sign", {v}), whole});
  }
};

Region region_of(const Layer& l, std::int64_t side, float scale) {
  Region r{.l = l,
           .x = l.input(),
           .channels = 0,
           .h = 0,
           .w = 0,
           .rows = l.integer(1, side),
           .columns = l.integer(0, side),
           .scale = l.number(2, scale)};
  const Ints dims = l.g.dims(r.x);
  if (dims.size() != 4 || dims[1] < 1 || dims[2] < 1 || dims[3] < 1)
    throw bad_input("regions of {}; the Input says its extents", to_string(l.g.shape(r.x)));
  r.channels = dims[1], r.h = dims[2], r.w = dims[3];
  if (r.rows < 1 || r.columns < 1 || r.rows > 256 || r.columns > 256)
    throw bad_input("a region in {} x {} cells", r.rows, r.columns);
  if (r.h * r.w > 1 << 24) throw bad_input("regions of {} x {} pixels", r.h, r.w);
  if (l.g.shape(l.input(1)).product(1, l.g.rank(l.input(1))) != 4)
    throw bad_input("a region {}, expected 4 numbers", to_string(l.g.shape(l.input(1))));
  return r;
}

// [N, cells, extent]: whether a pixel belongs to a cell from floor(first + i * bin) to
// ceil(first + (i + 1) * bin), which reaches over its neighbours where that is no whole number.
ValueId cells(const Region& r, ValueId first, ValueId bin, std::int64_t n, std::int64_t extent,
              bool sum_inside) {
  const ValueId i = r.count(n), j = r.op("add", {i, r.number(1)});
  // With `sum_inside` the first pixel is added before it is rounded.
  const auto edge = [&](ValueId at, const char* way) {
    const ValueId by = r.op("mul", {at, bin});
    return sum_inside ? r.op(way, {r.op("add", {first, by})})
                      : r.op("add", {first, r.op(way, {by})});
  };
  const Fields last{{"axes", Ints{2}}};
  const ValueId from = r.op("unsqueeze", {edge(i, "floor")}, last),
                to = r.op("unsqueeze", {edge(j, "ceil")}, last), pixels = r.count(extent);
  return r.op("and", {r.op("greater_or_equal", {pixels, from}), r.op("less", {pixels, to})});
}

ValueId any(const Region& r, ValueId mask) {  // [N, cells]
  const ValueId ones = r.op("cast", {mask}, {{"to", std::string("f32")}});
  return r.op("reduce_max", {ones}, {{"axes", Ints{2}}, {"keepdims", false}});
}

// The largest of each cell; 0 of a cell outside of the image.
ValueId roi_pooling(const Layer& l, Weights&) {
  const Region r = region_of(l, 0, 1);
  const auto axis = [&](std::int64_t i, std::int64_t n, std::int64_t extent) {
    const auto corner = [&](std::int64_t k) {
      return r.rounded(r.op("mul", {r.corner(k), r.number(r.scale)}));
    };
    const ValueId first = corner(i), last = corner(i + 2);
    const ValueId length =
        r.op("max", {r.op("add", {r.op("sub", {last, first}), r.number(1)}), r.number(1)});
    const ValueId bin = r.op("div", {length, r.number(static_cast<float>(n))});
    return cells(r, first, bin, n, extent, false);
  };
  const ValueId columns = axis(0, r.columns, r.w), rows = axis(1, r.rows, r.h);
  const ValueId least = r.number(-std::numeric_limits<float>::infinity());
  const Fields innermost{{"axes", Ints{-1}}, {"keepdims", false}};
  // [N, C, H, 1, W] by [N, 1, 1, columns, W], then [N, C, columns, 1, H] by [N, 1, 1, rows, H].
  const auto largest = [&](ValueId x, ValueId mask) {
    return r.op("reduce_max",
                {r.op("where", {r.op("unsqueeze", {mask}, {{"axes", Ints{1, 2}}}),
                                r.op("unsqueeze", {x}, {{"axes", Ints{3}}}), least})},
                innermost);
  };
  const ValueId by_column = l.g.transpose(l.name + ".columns", largest(r.x, columns), {0, 1, 3, 2});
  const ValueId y = l.g.transpose(l.name + ".cells", largest(by_column, rows), {0, 1, 3, 2});
  const ValueId full = r.op("mul", {r.op("unsqueeze", {any(r, rows)}, {{"axes", Ints{1, 3}}}),
                                    r.op("unsqueeze", {any(r, columns)}, {{"axes", Ints{1, 2}}})});
  return l.g.op("where", l.name, {r.op("greater", {full, r.number(0)}), y, r.number(0)});
}

// Each cell has channels of its own, of which it takes the mean.
ValueId psroi_pooling(const Layer& l, Weights&) {
  const Region r = region_of(l, 7, 0.0625F);
  const std::int64_t out = l.integer(3, 0);
  if (out < 1 || r.channels != checked_mul(out, r.rows * r.columns))
    throw bad_input("{} channels for {} of {} x {} cells", r.channels, out, r.rows, r.columns);
  const auto axis = [&](std::int64_t i, std::int64_t n, std::int64_t extent) {
    const auto corner = [&](std::int64_t k, float more) {
      const ValueId at = r.op("add", {r.corner(k), r.number(more)});
      return r.op("mul", {r.rounded(at), r.number(r.scale)});
    };
    const ValueId first = corner(i, 0), last = corner(i + 2, 1);
    const ValueId length = r.op("max", {r.op("sub", {last, first}), r.number(0.1F)});
    const ValueId bin = r.op("div", {length, r.number(static_cast<float>(n))});
    return r.op("cast", {cells(r, first, bin, n, extent, true)}, {{"to", std::string("f32")}});
  };
  const ValueId columns = axis(0, r.columns, r.w), rows = axis(1, r.rows, r.h);
  const ValueId x = l.g.reshape(l.name + ".parts", r.x, {0, out, r.rows, r.columns, r.h, r.w});
  const ValueId of_columns = r.op("unsqueeze", {columns}, {{"axes", Ints{1, 2, 4}}}),
                of_rows = r.op("unsqueeze", {rows}, {{"axes", Ints{1, 3, 5}}});
  const ValueId mask = r.op("mul", {of_rows, of_columns});
  const Fields places{{"axes", Ints{4, 5}}, {"keepdims", false}};
  const ValueId chosen = r.op("where", {r.op("greater", {mask, r.number(0)}), x, r.number(0)});
  const ValueId sum = r.op("reduce_sum", {chosen}, places),
                area = r.op("reduce_sum", {mask}, places);
  const ValueId some = r.op("max", {area, r.number(1)});
  return l.g.op("div", l.name, {sum, some});
}

// The mean of samples between pixels: each cell's samples weigh rows and columns of the image.
ValueId roi_align(const Layer& l, Weights&) {
  const Region r = region_of(l, 0, 1);
  const std::int64_t ratio = l.integer(3, 0), version = l.integer(5, 0);
  const bool aligned = l.integer(4, 0) != 0;
  if (version < 0 || version > 1 || ratio < 0 || ratio > 256)
    throw bad_input("version {} with {} samples an axis", version, ratio);
  if (version == 1 && ratio == 0)
    throw bad_input(
        "samples whose number depends on the region (sampling_ratio 0 of version 1); export it "
        "with a number of samples");
  struct Weighed {
    ValueId weights, samples;  // [N, cells, extent], [N, cells]
  };
  const auto axis = [&](std::int64_t i, std::int64_t n, std::int64_t extent) -> Weighed {
    const auto corner = [&](std::int64_t k) {
      const ValueId at = r.op("mul", {r.corner(k), r.number(r.scale)});
      return aligned ? r.op("sub", {at, r.number(0.5F)}) : at;
    };
    const ValueId first = corner(i), last = corner(i + 2);
    ValueId length = r.op("sub", {last, first});
    if (!aligned) length = r.op("max", {length, r.number(1)});
    const ValueId bin = r.op("div", {length, r.number(static_cast<float>(n))});
    const auto edge = [&](ValueId at) { return r.op("add", {first, r.op("mul", {at, bin})}); };
    const auto end = static_cast<float>(extent);
    ValueId from = edge(r.count(n)), used = kAbsent;
    ValueId samples = r.number(static_cast<float>(ratio));
    if (version == 0) {
      const Fields image{{"min", 0.0F}, {"max", end}};
      from = r.op("clip", {from}, image);
      const ValueId to = r.op("clip", {edge(r.op("add", {r.count(n), r.number(1)}))}, image);
      const ValueId inside = r.op("sub", {to, from});
      if (ratio == 0) samples = r.op("ceil", {inside});
      used = r.op("greater", {inside, r.number(0)});
    }
    // [N, cells, samples]: first + (b + 1/2) * bin / samples.
    const std::int64_t most = ratio > 0 ? ratio : extent;
    const Fields last_axis{{"axes", Ints{2}}};
    const ValueId each = ratio > 0 ? samples : r.op("unsqueeze", {samples}, last_axis);
    const ValueId halves = r.op("add", {r.count(most), r.number(0.5F)});
    const ValueId steps = r.op("div", {r.op("mul", {halves, r.op("unsqueeze", {bin}, last_axis)}),
                                       ratio > 0 ? each : r.op("max", {each, r.number(1)})});
    const ValueId at = r.op("add", {r.op("unsqueeze", {from}, last_axis), steps});
    // A sample weighs the two pixels beside it; one at the border that pixel alone.
    const ValueId held = r.op("clip", {at}, {{"min", 0.0F}, {"max", end - 1}});
    const ValueId distance = r.op(
        "abs", {r.op("sub", {r.op("unsqueeze", {held}, {{"axes", Ints{3}}}), r.count(extent)})});
    ValueId hat = r.op("relu", {r.op("sub", {r.number(1), distance})});
    ValueId taken = kAbsent;
    if (version == 1)
      taken = r.op("and", {r.op("greater_or_equal", {at, r.number(-1)}),
                           r.op("less_or_equal", {at, r.number(end)})});
    else if (ratio == 0)
      taken = r.op("less", {r.count(most), each});
    if (taken != kAbsent)
      hat = r.op("where", {r.op("unsqueeze", {taken}, {{"axes", Ints{3}}}), hat, r.number(0)});
    ValueId sum = r.op("reduce_sum", {hat}, {{"axes", Ints{2}}, {"keepdims", false}});
    if (used != kAbsent)
      sum = r.op("where", {r.op("unsqueeze", {used}, last_axis), sum, r.number(0)});
    return {sum, samples};
  };
  const Weighed columns = axis(0, r.columns, r.w), rows = axis(1, r.rows, r.h);
  const ValueId by_row =
      r.op("matmul", {r.op("unsqueeze", {rows.weights}, {{"axes", Ints{1}}}), r.x});
  const ValueId turned = l.g.transpose(l.name + ".turned", columns.weights, {0, 2, 1});
  const ValueId sums = r.op("matmul", {by_row, r.op("unsqueeze", {turned}, {{"axes", Ints{1}}})});
  ValueId area = kAbsent;
  if (ratio > 0)
    area = r.number(static_cast<float>(ratio * ratio));
  else
    area = r.op("max", {r.op("mul", {r.op("unsqueeze", {rows.samples}, {{"axes", Ints{1, 3}}}),
                                     r.op("unsqueeze", {columns.samples}, {{"axes", Ints{1, 2}}})}),
                        r.number(1)});
  return l.g.op("div", l.name, {sums, area});
}

}  // namespace

std::span<const LayerRow> region_rows() {
  static constexpr LayerRow kRows[] = {
      {"PSROIPooling", psroi_pooling}, {"ROIAlign", roi_align}, {"ROIPooling", roi_pooling}};
  return kRows;
}

}  // namespace etalon::ncnn
