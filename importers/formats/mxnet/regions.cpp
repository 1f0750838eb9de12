// Images sampled at other places: resized, by grids, over regions; and the boxes of a detector.
#include <algorithm>
#include <cmath>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/operators.h"

namespace etalon::mxnet {
namespace {

constexpr std::int64_t kMostPoints = 1 << 20;

// Height and width, which the file has to say.
std::pair<std::int64_t, std::int64_t> plane(const Translator& t, ValueId x) {
  const Ints dims = t.g.dims(x);
  if (dims.size() != 4) throw bad_input("an image of rank {}", dims.size());
  if (dims[2] < 1 || dims[3] < 1 || dims[2] > kMostPoints / dims[3])
    throw bad_input("an image whose extents the file does not say");
  return {dims[2], dims[3]};
}

std::pair<std::int64_t, std::int64_t> size_of(const Translator& t, std::string_view key) {
  const Ints size = t.integers(key);
  if (size.size() != 2 || size[0] < 1 || size[1] < 1 || size[0] > kMostPoints / size[1])
    throw bad_input("{} without {} of two extents", t.operator_name(), key);
  return {size[0], size[1]};
}

ValueId floats(const Parts& p, std::string_view role, const std::vector<float>& v, const Shape& s) {
  return p.t.g.constant(p.name(role), Tensor::of<float>(s, std::span<const float>(v)));
}

std::vector<ValueId> resize(Translator& t) {
  const std::string mode = t.attribute("mode", "size");
  const bool corners = t.flag("align_corners", true);
  Fields f{
      {"mode", std::string("linear")},
      {"coordinate_transformation_mode", std::string(corners ? "align_corners" : "half_pixel")},
      {"axes", Ints{2, 3}}};
  const float by_height = t.number("scale_height", 0), by_width = t.number("scale_width", 0);
  Ints sizes{t.integer("height", 0), t.integer("width", 0)};
  if (mode == "like") {
    const auto [h, w] = plane(t, t.x(1));
    sizes = {h, w};
  } else if (mode != "size") {
    throw bad_input("a resize with mode={}", printable(mode));
  } else if (by_height > 0 && by_width > 0) {
    const auto [h, w] = plane(t, t.x());
    sizes = {static_cast<std::int64_t>(by_height * static_cast<float>(h)),
             static_cast<std::int64_t>(by_width * static_cast<float>(w))};
  }
  if (sizes[0] < 1 || sizes[1] < 1 || sizes[0] > kMostPoints / sizes[1])
    throw bad_input("a resize to {} x {}", sizes[0], sizes[1]);
  return {t.op("resize", {t.x(), kAbsent, kAbsent, Parts{t}.ints("sizes", sizes)}, f)};
}

// ---- grids: x, then y, in [-1, 1] over the first to the last element ----
// A place of an image [N,H,W,C] (images, rows, columns broadcast), outside of it 0.
class Sampler {
 public:
  Sampler(const Parts& parts, ValueId image) : p_(parts) {
    std::tie(height_, width_) = plane(p_.t, image);
    rows_ = p_.t.g.transpose(p_.name("channels_last"), image, {0, 2, 3, 1});
  }
  // Elements [.., C] of the images; `image` has the places' shape.
  ValueId at(ValueId image, ValueId y, ValueId x) const {
    const ValueId inside_y = inside(y, height_), inside_x = inside(x, width_);
    const ValueId place =
        p_.op("concat", "place", {last(image), last(held(y, height_)), last(held(x, width_))},
              {{"axis", std::int64_t{p_.t.g.rank(image)}}});
    const ValueId found = p_.op("gather_nd", "found", {rows_, place});
    return p_.op("where", "tap",
                 {last(p_.op("and", "inside", {inside_y, inside_x})), found, p_.number(found, 0)});
  }
  ValueId last(ValueId v) const { return p_.unsqueeze("last", v, {-1}); }

 private:
  ValueId bound(ValueId like, std::int64_t v) const {
    return p_.number(like, static_cast<double>(v));
  }
  ValueId inside(ValueId v, std::int64_t extent) const {
    return p_.op("and", "within",
                 {p_.op("greater_or_equal", "from", {v, bound(v, 0)}),
                  p_.op("less", "below", {v, bound(v, extent)})});
  }
  ValueId held(ValueId v, std::int64_t extent) const {
    return p_.as_ids(
        p_.op("clip", "held", {v}, {{"min", 0.0F}, {"max", static_cast<float>(extent - 1)}}));
  }

  Parts p_;
  std::int64_t height_ = 0, width_ = 0;
  ValueId rows_ = kAbsent;
};

// The four taps about (y, x), by their shares.
ValueId between(const Parts& p, const Sampler& sampler, ValueId image, ValueId y, ValueId x) {
  const ValueId one = p.number(y, 1);
  const ValueId y0 = p.op("floor", "y0", {y}), x0 = p.op("floor", "x0", {x});
  const ValueId y1 = p.op("add", "y1", {y0, one}), x1 = p.op("add", "x1", {x0, one});
  const ValueId fy = p.op("sub", "fy", {y, y0}), fx = p.op("sub", "fx", {x, x0});
  const ValueId gy = p.op("sub", "gy", {one, fy}), gx = p.op("sub", "gx", {one, fx});
  const auto tap = [&](ValueId ty, ValueId tx, ValueId wy, ValueId wx) {
    return p.op("mul", "part",
                {sampler.at(image, ty, tx), sampler.last(p.op("mul", "share", {wy, wx}))});
  };
  return p.op("sum", "between",
              {tap(y0, x0, gy, gx), tap(y0, x1, gy, fx), tap(y1, x0, fy, gx), tap(y1, x1, fy, fx)});
}

ValueId sampled(const Parts& p, ValueId image, ValueId grid) {
  const auto [h, w] = plane(p.t, image);
  if (p.t.g.rank(grid) != 4 || p.t.g.dims(grid)[1] != 2)
    throw bad_input("a grid that is not [batch, 2, height, width]");
  const auto place = [&](std::int64_t which, std::int64_t extent) {
    const ValueId v =
        p.op("gather", "side",
             {grid, p.t.g.constant(p.name("which"), Tensor::of<std::int64_t>({}, {which}))},
             {{"axis", std::int64_t{1}}});
    const ValueId from = p.op("add", "from_first", {v, p.number(v, 1)});
    return p.op("mul", "place", {from, p.number(from, static_cast<double>(extent - 1) / 2)});
  };
  const ValueId x = place(0, w), y = place(1, h);
  const ValueId images =
      p.op("expand", "images",
           {p.unsqueeze("image", p.steps(image, 0), {1, 2}), p.extents("places", x, 0, 3)});
  const ValueId v = between(p, Sampler(p, image), images, y, x);
  return p.t.g.transpose(p.t.name(), v, {0, 3, 1, 2});
}

std::vector<ValueId> bilinear_sampler(Translator& t) { return {sampled({t}, t.x(0), t.x(1))}; }

// theta [N,6] over the points of the grid, or a flow that is added to its places.
ValueId affine_grid(const Parts& p, ValueId theta, std::int64_t h, std::int64_t w) {
  std::vector<float> points;
  const auto side = [](std::int64_t i, std::int64_t n) {
    return n > 1 ? -1 + static_cast<float>(i) * 2 / static_cast<float>(n - 1) : -1.0F;
  };
  for (int row = 0; row < 3; ++row)
    for (std::int64_t i = 0; i < h; ++i)
      for (std::int64_t j = 0; j < w; ++j)
        points.push_back(row == 0 ? side(j, w) : row == 1 ? side(i, h) : 1);
  const ValueId matrix = p.t.g.reshape(p.name("matrix"), theta, {-1, 2, 3});
  const ValueId y = p.op("matmul", "grid", {matrix, floats(p, "points", points, {3, h * w})});
  return p.t.g.reshape(p.name("plane"), y, {-1, 2, h, w});
}

std::vector<ValueId> grid_generator(Translator& t) {
  const Parts p{t};
  const std::string kind = t.attribute("transform_type", "affine");
  if (kind == "affine") {
    const auto [h, w] = size_of(t, "target_shape");
    return {t.op("identity", {affine_grid(p, t.x(), h, w)})};
  }
  if (kind != "warp") throw bad_input("a grid with transform_type={}", printable(kind));
  t.attribute("target_shape");
  const auto [h, w] = plane(t, t.x());
  std::vector<float> places;
  for (int row = 0; row < 2; ++row)
    for (std::int64_t i = 0; i < h; ++i)
      for (std::int64_t j = 0; j < w; ++j) places.push_back(static_cast<float>(row == 0 ? j : i));
  const ValueId moved = p.op("add", "moved", {t.x(), floats(p, "places", places, {2, h, w})});
  const ValueId half =
      floats(p, "half", {static_cast<float>(w - 1) / 2, static_cast<float>(h - 1) / 2}, {2, 1, 1});
  return {t.op("sub", {p.op("div", "scaled", {moved, half}), p.number(moved, 1)})};
}

std::vector<ValueId> spatial_transformer(Translator& t) {
  const Parts p{t};
  if (t.attribute("transform_type", "affine") != "affine" ||
      t.attribute("sampler_type", "bilinear") != "bilinear")
    throw bad_input("a SpatialTransformer that is not affine and bilinear");
  const auto [h, w] = size_of(t, "target_shape");
  return {sampled(p, t.x(0), affine_grid(p, t.x(1), h, w))};
}

// ---- regions: rows of (image, x, y, x, y) ----
ValueId column(const Parts& p, ValueId rois, std::int64_t i) {
  if (p.t.g.rank(rois) != 2 || p.t.g.dims(rois)[1] != 5)
    throw bad_input("regions that are not [n, 5]");
  return p.op("slice", "column", {rois},
              {{"starts", Ints{i}}, {"ends", Ints{i + 1}}, {"axes", Ints{1}}});
}

// Each bin is the mean of sample_ratio^2 points, each between four elements.
std::vector<ValueId> roi_align(Translator& t) {
  const Parts p{t};
  const auto [ph, pw] = size_of(t, "pooled_size");
  const auto [h, w] = plane(t, t.x());
  const std::int64_t s = t.integer("sample_ratio", -1);
  if (s < 1 || s > 64) throw bad_input("ROIAlign whose number of points hangs on the region");
  t.refuse("position_sensitive");
  const bool aligned = t.flag("aligned", false);
  const double scale = t.number("spatial_scale", 1);
  const ValueId rois = t.x(1);
  const auto scaled = [&](std::int64_t i) {
    const ValueId v = column(p, rois, i);
    const ValueId y = p.op("mul", "scaled", {v, p.number(v, scale)});
    return aligned ? p.op("sub", "aligned", {y, p.number(y, 0.5)}) : y;
  };
  // Places [n, bins * s] along one axis, and whether they are at most one beyond the image.
  struct Places {
    ValueId at, near;
  };
  const auto along = [&](std::int64_t side, std::int64_t bins, std::int64_t extent) {
    const ValueId first = scaled(side), end = scaled(side + 2);
    ValueId length = p.op("sub", "length", {end, first});
    if (!aligned) length = p.op("max", "least", {length, p.number(length, 1)});
    const ValueId bin = p.op("div", "bin", {length, p.number(length, static_cast<double>(bins))});
    std::vector<float> offsets;
    for (std::int64_t b = 0; b < bins; ++b)
      for (std::int64_t i = 0; i < s; ++i)
        offsets.push_back(static_cast<float>(b) +
                          (static_cast<float>(i) + 0.5F) / static_cast<float>(s));
    const ValueId v =
        p.op("add", "points",
             {first, p.op("mul", "offsets", {bin, floats(p, "of_bins", offsets, {1, bins * s})})});
    const ValueId near =
        p.op("and", "near",
             {p.op("greater_or_equal", "from", {v, p.number(v, -1)}),
              p.op("less_or_equal", "to", {v, p.number(v, static_cast<double>(extent))})});
    return Places{
        p.op("clip", "held", {v}, {{"min", 0.0F}, {"max", static_cast<float>(extent - 1)}}), near};
  };
  const Places y = along(2, ph, h), x = along(1, pw, w);
  const ValueId near =
      p.op("and", "both", {p.unsqueeze("rows", y.near, {2}), p.unsqueeze("columns", x.near, {1})});
  const ValueId shape = p.extents("places", near, 0, 3);
  const auto all = [&](std::string_view role, ValueId v) {
    return p.op("expand", role, {v, shape});
  };
  const ValueId images = all("images", p.unsqueeze("image", p.as_ids(column(p, rois, 0)), {2}));
  const Sampler sampler(p, t.x());
  const ValueId v = between(p, sampler, images, all("ys", p.unsqueeze("y", y.at, {2})),
                            all("xs", p.unsqueeze("x", x.at, {1})));
  const ValueId kept = p.op("where", "kept", {sampler.last(near), v, p.number(v, 0)});
  const std::int64_t channels = t.g.dims(t.x())[1];
  const ValueId bins =
      p.op("reshape", "bins", {kept}, {{"shape", Ints{-1, ph, s, pw, s, channels}}});
  const ValueId mean =
      p.op("reduce_mean", "mean", {bins}, {{"axes", Ints{2, 4}}, {"keepdims", false}});
  return {t.g.transpose(t.name(), mean, {0, 3, 1, 2})};
}

// The largest element of each bin, 0 of an empty one: first along the rows, then along the columns.
std::vector<ValueId> roi_pooling(Translator& t) {
  const Parts p{t};
  const auto [ph, pw] = size_of(t, "pooled_size");
  const auto [h, w] = plane(t, t.x());
  const double scale = t.number("spatial_scale", 1);
  const ValueId rois = t.x(1);
  const auto corner = [&](std::int64_t i) {  // to the nearest, halves up: corners are not negative
    const ValueId v = column(p, rois, i);
    return p.op(
        "floor", "corner",
        {p.op("add", "half", {p.op("mul", "scaled", {v, p.number(v, scale)}), p.number(v, 0.5)})});
  };
  // Which elements [n, bins, extent] of an axis belong to which bin.
  const auto along = [&](std::int64_t side, std::int64_t bins, std::int64_t extent) {
    const ValueId first = corner(side), one = p.number(first, 1);
    const ValueId length =
        p.op("max", "least",
             {p.op("add", "length", {p.op("sub", "last", {corner(side + 2), first}), one}), one});
    const ValueId bin = p.op("div", "bin", {length, p.number(length, static_cast<double>(bins))});
    std::vector<float> counts, elements;
    for (std::int64_t i = 0; i <= bins; ++i) counts.push_back(static_cast<float>(i));
    for (std::int64_t i = 0; i < extent; ++i) elements.push_back(static_cast<float>(i));
    const std::vector<float> from(counts.begin(), counts.end() - 1),
        to(counts.begin() + 1, counts.end());
    const auto bound = [&](const char* round, const std::vector<float>& at) {
      const ValueId v = p.op("mul", "bound", {bin, floats(p, "count", at, {1, bins})});
      return p.unsqueeze("bounds", p.op("add", "place", {p.op(round, "whole", {v}), first}), {2});
    };
    const ValueId each = floats(p, "elements", elements, {1, 1, extent});
    return p.op("and", "of_bin",
                {p.op("greater_or_equal", "from", {each, bound("floor", from)}),
                 p.op("less", "below", {each, bound("ceil", to)})});
  };
  const ValueId image =
      p.op("squeeze", "image", {p.as_ids(column(p, rois, 0))}, {{"axes", Ints{1}}});
  const ValueId each = p.op("gather", "images", {t.x(), image});  // [n,C,H,W]
  const auto largest = [&](std::string_view role, ValueId mask, ValueId v, std::int64_t axis) {
    const ValueId of = p.op("where", "chosen", {mask, v, p.number(v, -INFINITY)});
    return p.op("reduce_max", role, {of}, {{"axes", Ints{axis}}, {"keepdims", false}});
  };
  // [n,ph,C,H,W] over H, then [n,ph,pw,C,W] over W.
  const ValueId rows = largest("rows", p.unsqueeze("row_mask", along(2, ph, h), {2, 4}),
                               p.unsqueeze("by_row", each, {1}), 3);
  const ValueId bins = largest("bins", p.unsqueeze("column_mask", along(1, pw, w), {1, 3}),
                               p.unsqueeze("by_column", rows, {2}), 4);
  const ValueId full =
      p.op("where", "full",
           {p.op("equal", "empty", {bins, p.number(bins, -INFINITY)}), p.number(bins, 0), bins});
  return {t.g.transpose(t.name(), full, {0, 3, 1, 2})};
}

// Boxes of every size with the first ratio, then of every other ratio with the first size.
std::vector<ValueId> priors(Translator& t) {
  const auto [h, w] = plane(t, t.x());
  const auto list = [&](std::string_view key) {
    std::vector<float> v;
    for (const double n : Translator::numbers_of(t.attribute(key)))
      v.push_back(static_cast<float>(n));
    return v;
  };
  const auto pair = [&](std::string_view key, float otherwise) {
    auto v = list(key);
    if (v.empty()) v = {otherwise, otherwise};
    if (v.size() != 2) throw bad_input("{} of {} numbers", key, v.size());
    return v;
  };
  auto sizes = list("sizes"), ratios = list("ratios");
  if (sizes.empty()) sizes = {1};
  if (ratios.empty()) ratios = {1};
  auto steps = pair("steps", -1);
  const auto offsets = pair("offsets", 0.5F);
  const bool clip = t.flag("clip", false);
  const auto fh = static_cast<float>(h), fw = static_cast<float>(w);
  if (steps[0] <= 0 || steps[1] <= 0) steps = {1 / fh, 1 / fw};
  const auto each = static_cast<std::int64_t>(sizes.size() + ratios.size() - 1);
  if (each > kMostPoints / (h * w))
    throw bad_input("{} boxes at each of {} x {} points", each, h, w);
  std::vector<float> boxes;
  const auto box = [&](float y, float x, float size, float ratio) {
    const float root = std::sqrt(ratio), half_w = size * fh / fw * root / 2,
                half_h = size / root / 2;
    for (const float v : {x - half_w, y - half_h, x + half_w, y + half_h})
      boxes.push_back(clip ? std::clamp(v, 0.0F, 1.0F) : v);
  };
  for (std::int64_t i = 0; i < h; ++i)
    for (std::int64_t j = 0; j < w; ++j) {
      const float y = (static_cast<float>(i) + offsets[0]) * steps[0],
                  x = (static_cast<float>(j) + offsets[1]) * steps[1];
      for (const float size : sizes) box(y, x, size, ratios[0]);
      for (std::size_t k = 1; k < ratios.size(); ++k) box(y, x, sizes[0], ratios[k]);
    }
  return {floats({t}, "boxes", boxes, {1, h * w * each, 4})};
}

constexpr OperatorRow kRows[] = {
    {"_contrib_BilinearResize2D", resize}, {"BilinearSampler", bilinear_sampler},
    {"GridGenerator", grid_generator},     {"SpatialTransformer", spatial_transformer},
    {"_contrib_ROIAlign", roi_align},      {"ROIPooling", roi_pooling},
    {"_contrib_MultiBoxPrior", priors}};

}  // namespace

std::span<const OperatorRow> region_rows() { return kRows; }

}  // namespace etalon::mxnet
