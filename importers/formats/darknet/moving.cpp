// Sections that bring layers together or move their values.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

ValueId route(const Layer& l) {
  std::vector<ValueId> in;
  for (const std::int64_t i : l.s.integers("layers")) in.push_back(l.earlier(i));
  if (in.empty()) throw bad_input("a route without layers");
  const ValueId x = in.size() == 1 ? in[0] : l.op("concat", "", in, {{"axis", std::int64_t{1}}});
  const std::int64_t groups = l.s.integer("groups", 1), id = l.s.integer("group_id", 0);
  if (groups == 1) return x;
  if (groups < 1 || id < 0 || id >= groups || l.g.shape(x)[1] % groups != 0)
    throw bad_input("part {} of {} of {} channels", id, groups, l.g.shape(x)[1]);
  const std::int64_t part = l.g.shape(x)[1] / groups;
  return l.op("slice", "group", {x},
              {{"starts", Ints{id * part}}, {"ends", Ints{(id + 1) * part}}, {"axes", Ints{1}}});
}

// What lies at the same places of both: of the other every stride-th row and column, and as many
// channels as both have. Further channels of the input stay as they are.
ValueId joined(const Layer& l, ValueId x, ValueId other, const std::string& role) {
  if (l.g.shape(other) == l.g.shape(x)) return l.op("add", role, {x, other});
  if (l.g.rank(x) != 4 || l.g.rank(other) != 4)
    throw bad_input("a shortcut between {} and {}", to_string(l.g.shape(other)),
                    to_string(l.g.shape(x)));
  const Shape to = l.g.shape(x), from = l.g.shape(other);
  const std::int64_t stride = from[2] / to[2], c = std::min(to[1], from[1]);
  if (stride < 1 || from[3] / to[3] != stride)
    throw bad_input("a shortcut from {} to the larger {}", to_string(from), to_string(to));
  if (from != to) {
    l.g.note(
        "a shortcut between different shapes adds the channels that both have, of the larger image "
        "every stride-th row and column");
    other = l.op("slice", role + ".part", {other},
                 {{"starts", Ints{0, 0, 0}},
                  {"ends", Ints{c, (to[2] - 1) * stride + 1, (to[3] - 1) * stride + 1}},
                  {"axes", Ints{1, 2, 3}},
                  {"steps", Ints{1, stride, stride}}});
  }
  if (c == to[1]) return l.op("add", role, {x, other});
  const auto parts = l.g.nodes(
      "split", l.name + "." + role + ".channels", {x},
      make_params(get_op("split"), {{"axis", std::int64_t{1}}, {"split", Ints{c, to[1] - c}}}), 2);
  return l.op("concat", role + ".all", {l.op("add", role, {parts[0], other}), parts[1]},
              {{"axis", std::int64_t{1}}});
}

ValueId shortcut(const Layer& l) {
  if (const std::string kind = l.s.text("weights_type", "none"); kind != "none")
    throw bad_input("a shortcut whose parts are weighed (weights_type={})", printable(kind));
  for (const char* key : {"alpha", "beta"}) l.s.ordinary(key, 1);
  Ints from = l.s.integers("from");
  if (from.empty()) throw bad_input("a shortcut from nowhere");
  ValueId x = l.x;
  for (std::size_t i = 0; i < from.size(); ++i)
    x = joined(l, x, l.earlier(from[i]), fmt::format("sum{}", i));
  return l.activated(x, "linear");
}

// The input, one value a channel (or with scale_wh one a place), times an earlier layer.
ValueId scale_channels(const Layer& l) {
  const Shape& by = l.image();
  const Ints from = l.s.integers("from");
  const ValueId other = l.earlier(from.empty() ? -1 : from[0]);
  const bool places = l.s.integer("scale_wh", 0) != 0;
  const Shape& of = l.g.shape(other);
  if (of.rank() != 4 || (places ? by[1] != 1 || by[2] != of[2] || by[3] != of[3]
                                : by[1] != of[1] || by[2] != 1 || by[3] != 1))
    throw bad_input("{} does not scale {}", to_string(by), to_string(of));
  return l.activated(l.op("mul", "", {l.x, other}), "linear");
}

ValueId sam(const Layer& l) {
  const Ints from = l.s.integers("from");
  const ValueId other = l.earlier(from.empty() ? -1 : from[0]);
  if (l.g.shape(other) != l.g.shape(l.x))
    throw bad_input("{} times {}", to_string(l.g.shape(l.x)), to_string(l.g.shape(other)));
  return l.activated(l.op("mul", "", {l.x, other}), "linear");
}

ValueId upsample(const Layer& l) {
  const auto scale = static_cast<float>(l.s.integer("stride", 2));
  l.s.ordinary("reverse", 0);
  l.s.ordinary("scale", 1);
  return l.op("resize", "", {l.x},
              {{"mode", std::string("nearest")},
               {"coordinate_transformation_mode", std::string("asymmetric")},
               {"nearest_mode", std::string("floor")},
               {"axes", Ints{2, 3}},
               {"scales", std::vector<float>{scale, scale}}});
}

// out[i] = in[place(i)]: Darknet reads [C,H,W] as [C/b^2, H*b, W*b], C/b^2 cut to a whole
// number even where it is none. Then channels past the last whole block read on behind it.
ValueId reorg(const Layer& l) {
  for (const char* key : {"reverse", "flatten"}) l.s.ordinary(key, 0);
  const Shape& shape = l.image();
  const std::int64_t b = l.s.integer("stride", 1), c = shape[1], h = shape[2], w = shape[3];
  if (const std::int64_t extra = l.s.integer("extra", 0); extra != 0) {
    // Values of zero behind the example's own; nothing is moved.
    if (extra < 0) throw bad_input("{} further values", extra);
    return l.op("pad", "", {l.flat()}, {{"pads", Ints{0, 0, 0, extra}}});
  }
  const std::int64_t inner = b < 1 ? 0 : c / (b * b), n = shape.product(1, 4);
  if (inner < 1 || h % b != 0 || w % b != 0 || n > 1 << 22)
    throw bad_input("{} in blocks of {}", to_string(shape), b);
  Tensor places = Tensor::uninitialized(DType::i64, {n});
  auto at = places.mutable_data<std::int64_t>();
  for (std::int64_t k = 0; k < c; ++k)
    for (std::int64_t j = 0; j < h; ++j)
      for (std::int64_t i = 0; i < w; ++i) {
        const std::int64_t block = k / inner, row = j * b + block / b, column = i * b + block % b;
        const std::int64_t place = column + w * b * (row + h * b * (k % inner));
        if (place >= n) throw bad_input("{} channels in blocks of {} read behind the input", c, b);
        at[static_cast<std::size_t>(i + w * (j + h * k))] = place;
      }
  const ValueId flat = l.op("reshape", "flat", {l.x}, {{"shape", Ints{-1, n}}});
  const ValueId y = l.op("gather", "places", {flat, l.constant("index", std::move(places))},
                         {{"axis", std::int64_t{1}}});
  l.g.note("reorg reads [C,H,W] as [C/b^2,H*b,W*b], as Darknet does");
  return l.op("reshape", "", {y}, {{"shape", Ints{-1, c * b * b, h / b, w / b}}});
}

// Blocks of places become channels, the place in its block outermost.
ValueId reorg3d(const Layer& l) {
  l.s.ordinary("reverse", 0);
  const Shape& shape = l.image();
  const std::int64_t b = l.s.integer("stride", 1), c = shape[1], h = shape[2], w = shape[3];
  if (b < 1 || h % b != 0 || w % b != 0) throw bad_input("{} in blocks of {}", to_string(shape), b);
  const ValueId blocks =
      l.op("reshape", "blocks", {l.x}, {{"shape", Ints{-1, c, h / b, b, w / b, b}}});
  const ValueId turned =
      l.op("transpose", "channels", {blocks}, {{"perm", Ints{0, 3, 5, 1, 2, 4}}});
  return l.op("reshape", "", {turned}, {{"shape", Ints{-1, c * b * b, h / b, w / b}}});
}

// The middle, as Darknet crops when it does not train; pixels from [0, 1] to [-1, 1].
ValueId crop(const Layer& l) {
  const Shape& shape = l.image();
  const std::int64_t h = l.s.integer("crop_height", 1), w = l.s.integer("crop_width", 1);
  const bool adjusts = l.s.integer("noadjust", 0) == 0;
  if (h < 1 || w < 1 || h > shape[2] || w > shape[3])
    throw bad_input("{} x {} of {}", h, w, to_string(shape));
  const std::int64_t top = (shape[2] - h) / 2, left = (shape[3] - w) / 2;
  const ValueId y =
      l.op("slice", "middle", {l.x},
           {{"starts", Ints{top, left}}, {"ends", Ints{top + h, left + w}}, {"axes", Ints{2, 3}}});
  l.g.note("a crop takes the middle, as when it does not train");
  if (!adjusts) return y;
  l.g.note("a crop makes 2 x - 1 of every value (no noadjust)");
  return l.op("sub", "",
              {l.op("mul", "twice", {y, l.constant("by", scalar_f32(2))}),
               l.constant("one", scalar_f32(1))});
}

constexpr SectionRow kRows[] = {{"route", "route", route},
                                {"shortcut", "shortcut", shortcut},
                                {"scale_channels", "scale_channels", scale_channels},
                                {"sam", "sam", sam},
                                {"upsample", "upsample", upsample},
                                {"reorg", "reorg", reorg},
                                {"reorg3d", "reorg3d", reorg3d},
                                {"crop", "crop", crop}};

}  // namespace

std::span<const SectionRow> moving_sections() { return kRows; }

}  // namespace etalon::darknet
