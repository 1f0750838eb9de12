// Operations of ML programs that choose, count and place: top k, sorting, ranges, one hot, scatter,
// bands; boxes, attention, quantisation.
//
// Source: the public documentation of MIL's operations, iOS 15 to 18.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/formats/coreml/boxes.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/einsum.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

using Values = std::vector<ValueId>;

ValueId i32(const Operation& o, ValueId v) { return o.cast("i32", v, DType::i32); }

Values top_k(Operation& o) {
  const ValueId x = o.value("x");
  const std::int64_t axis = o.integer("axis", -1);
  const Fields f{
      {"axis", axis}, {"k", o.integer("k", 1)}, {"largest", !o.flag("ascending", false)}};
  const auto y = o.g.nodes("top_k", o.name, {x}, make_params(get_op("top_k"), f), 2);
  return {y[0], i32(o, y[1])};
}

Values arg_sort(Operation& o) {
  const ValueId x = o.value("x");
  const int axis = normalize_axis(o.integer("axis", -1), o.g.rank(x));
  const std::int64_t extent = o.g.dims(x)[static_cast<std::size_t>(axis)];
  if (extent < 0) throw bad_input("an argsort over an axis whose extent is free");
  const Fields f{
      {"axis", std::int64_t{axis}}, {"k", extent}, {"largest", !o.flag("ascending", false)}};
  return {i32(o, o.g.nodes("top_k", o.name, {x}, make_params(get_op("top_k"), f), 2)[1])};
}

Values filled(Operation& o) {
  const bool like = o.type == "fill_like";
  const ValueId shape = like ? o.g.op("shape", o.part("shape"), {o.value("ref_tensor")})
                             : o.i64("i64", o.value("shape"));
  const ValueId value =
      o.has("value") ? o.value("value") : o.g.constant(o.part("zero"), scalar_f32(0));
  return {o.g.op("expand", o.name, {value, shape})};
}

Values one_hot(Operation& o) {
  const Tensor* on = o.constant("on_value");
  const Tensor* off = o.constant("off_value");
  const DType type = on != nullptr ? on->dtype() : off != nullptr ? off->dtype() : DType::i32;
  Tensor values = Tensor::uninitialized(type, {2});
  store_from_double(type, values.mutable_bytes().data(), 0,
                    off != nullptr ? load_as_double(*off, 0) : 0);
  store_from_double(type, values.mutable_bytes().data(), 1,
                    on != nullptr ? load_as_double(*on, 0) : 1);
  return {o.g.op("one_hot", o.name,
                 {o.value("indices"), o.value("one_hot_vector_size"),
                  o.g.constant(o.part("values"), std::move(values))},
                 {{"axis", o.integer("axis", -1)}})};
}

Values reversed(Operation& o) {
  const ValueId x = o.value("x");
  Ints axes = o.integers("axes");
  if (axes.empty())
    for (int a = 0; a < o.g.rank(x); ++a) axes.push_back(a);
  return {o.g.op("slice", o.name, {x},
                 {{"starts", Ints(axes.size(), -1)},
                  {"ends", Ints(axes.size(), INT64_MIN)},
                  {"axes", axes},
                  {"steps", Ints(axes.size(), -1)}})};
}

std::string reduction(const Operation& o, std::string_view otherwise) {
  std::string mode = o.text("mode", otherwise);
  if (mode == "update") return "none";
  for (const char* known : {"add", "mul", "max", "min"})
    if (mode == known) return mode;
  throw bad_input("a {} of the mode {} is not supported", o.type, mode);
}

Values scattered(Operation& o) {
  const ValueId data = o.value("data"), at = o.i64("i64", o.value("indices")),
                of = o.value("updates");
  if (o.type == "scatter_nd")
    return {o.g.op("scatter_nd", o.name, {data, at, of}, {{"reduction", reduction(o, "add")}})};
  const std::int64_t axis = o.integer("axis", 0);
  if (o.type == "scatter_along_axis")
    return {o.g.op("scatter_elements", o.name, {data, at, of},
                   {{"axis", axis}, {"reduction", reduction(o, "add")}})};
  // Slices at indices of one axis: coordinates over the axis brought to the front.
  const int rank = o.g.rank(data), from = normalize_axis(axis, rank);
  Ints front, back(static_cast<std::size_t>(rank));
  for (int i = 0; i < rank; ++i) front.push_back(i);
  std::rotate(front.begin(), front.begin() + from, front.begin() + from + 1);
  for (int i = 0; i < rank; ++i)
    back[static_cast<std::size_t>(front[static_cast<std::size_t>(i)])] = i;
  const ValueId whole = o.g.transpose(o.part("front"), data, front),
                slices = o.g.transpose(o.part("slices"), of, front),
                places = o.g.op("unsqueeze", o.part("places"), {at}, {{"axes", Ints{-1}}});
  return {o.g.transpose(
      o.name,
      o.g.op("scatter_nd", o.name, {whole, places, slices}, {{"reduction", reduction(o, "add")}}),
      back)};
}

// What lies in a band around the diagonal of the innermost matrices.
Values band(Operation& o) {
  const ValueId x = o.value("x");
  const Ints dims = o.g.dims(x);
  if (dims.size() < 2) throw bad_input("a band of rank {}", dims.size());
  const std::int64_t rows = dims[dims.size() - 2], columns = dims.back(),
                     lower = o.integer("lower", -1), upper = o.integer("upper", -1);
  if (rows < 0 || columns < 0 || (columns > 0 && rows > (1 << 24) / columns))
    throw bad_input("a band of {} by {}", rows, columns);
  Tensor inside = Tensor::uninitialized(DType::boolean, {rows, columns});
  for (std::int64_t m = 0; m < rows; ++m)
    for (std::int64_t n = 0; n < columns; ++n)
      inside.mutable_bytes()[static_cast<std::size_t>(m * columns + n)] =
          std::byte((lower < 0 || m - n <= lower) && (upper < 0 || n - m <= upper) ? 1 : 0);
  return {o.g.op("where", o.name,
                 {o.g.constant(o.part("inside"), std::move(inside)), x, o.scalar("scalar", x, 0)})};
}

// Of iOS 15; since iOS 17 the boxes lie along the last axis, no score is too low, and no numbers of
// boxes are given.
Values suppressed(Operation& o) {
  const bool last = !o.has("score_threshold");
  const DType type = o.g.dtype(o.value("scores"));
  const auto in = [&](std::string_view key) {
    const ValueId v = o.cast(key, o.value(key), DType::f32);
    return last ? o.g.transpose(o.part(key), v, {0, 2, 1}) : v;
  };
  const auto number = [&](std::string_view key, float otherwise) {
    return o.g.constant(o.part(key), scalar_f32(o.number(key, otherwise)));
  };
  constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const Values y = choose_boxes(o.g, o.part("choice"), in("boxes"), in("scores"),
                                {.overlap = number("iou_threshold", 0),
                                 .least = number("score_threshold", kLowest),
                                 .most = o.integer("max_boxes", 1),
                                 .by_class = o.flag("per_class_suppression", false)});
  const auto out = [&](ValueId v) {
    const ValueId typed = o.cast("typed", v, type);
    return last ? o.g.op("transpose", o.part("last"), {typed}, {{"perm", Ints{0, 2, 1}}}) : typed;
  };
  return {out(y[0]), out(y[1]), i32(o, y[2]), i32(o, y[3])};
}

Values cropped(Operation& o) {
  const ValueId x = o.value("x");
  const Ints height = o.integers("crop_height"), width = o.integers("crop_width");
  const Ints dims = o.g.dims(x);
  if (height.size() != 2 || width.size() != 2 || dims.size() != 4)
    throw bad_input("a crop of rank {}", dims.size());
  const auto end = [](std::int64_t behind) { return behind == 0 ? INT64_MAX : -behind; };
  return {o.g.op("slice", o.name, {x},
                 {{"starts", Ints{height[0], width[0]}},
                  {"ends", Ints{end(height[1]), end(width[1])}},
                  {"axes", Ints{2, 3}}})};
}

Values l2_norm(Operation& o) {
  const ValueId x = o.value("x");
  const std::int64_t rank = o.g.rank(x);
  if (rank < 3) throw bad_input("an l2_norm of rank {}", rank);
  const ValueId sum = o.g.op("reduce_sum_square", o.part("sum"), {x},
                             {{"axes", Ints{rank - 3, rank - 2, rank - 1}}, {"keepdims", true}});
  const double eps = static_cast<double>(o.number("epsilon", 1e-6F));
  const ValueId held = o.g.op("add", o.part("epsilon"), {sum, o.scalar("scalar", x, eps)});
  return {o.g.op("div", o.name, {x, o.g.op("sqrt", o.part("root"), {held})})};
}

Values attention(Operation& o) {
  const ValueId q = o.value("query"), k = o.value("key"), v = o.value("value");
  const Ints dims = o.g.dims(q);
  if (dims.size() < 2 || dims.back() < 1) throw bad_input("an attention of rank {}", dims.size());
  Ints turned;
  for (std::size_t i = 0; i < dims.size(); ++i) turned.push_back(static_cast<std::int64_t>(i));
  std::swap(turned[turned.size() - 1], turned[turned.size() - 2]);
  const ValueId scale = o.scalar("scalar", q, 1 / std::sqrt(static_cast<double>(dims.back())));
  ValueId scores = o.g.op(
      "mul", o.part("scaled"),
      {o.g.op("matmul", o.part("scores"), {q, o.g.transpose(o.part("keys"), k, turned)}), scale});
  if (o.has("attn_mask")) {
    const ValueId mask = o.value("attn_mask");
    scores = o.g.dtype(mask) == DType::boolean
                 ? o.g.op("where", o.part("masked"),
                          {mask, scores,
                           o.scalar("scalar", q, -std::numeric_limits<double>::infinity())})
                 : o.g.op("add", o.part("masked"), {scores, mask});
  }
  const ValueId shares =
      o.g.op("softmax", o.part("shares"), {scores}, {{"axis", std::int64_t{-1}}});
  return {o.g.op("matmul", o.name, {shares, v})};
}

Values einsum(Operation& o) {
  const Values in = o.values("values");
  if (in.size() != 2) throw bad_input("an einsum of {} values", in.size());
  const auto y = einsum_of_two(o.g, o.name, o.text("equation", ""), in[0], in[1]);
  if (!y) throw bad_input("the einsum {} is not supported", printable(o.text("equation", "")));
  return {*y};
}

Values range(Operation& o) {
  return {o.g.op("range", o.name, {o.value("start"), o.value("end"), o.value("step")})};
}

Values coordinates(Operation& o) {
  const ValueId found = o.g.op("non_zero", o.part("found"), {o.value("x")});
  return {i32(o, o.g.op("transpose", o.name, {found}, {{"perm", Ints{1, 0}}}))};
}

Values softplus(Operation& o) {
  const ValueId x = o.value("x");
  Ints shape(static_cast<std::size_t>(std::max(o.g.rank(x) - 1, 1)), 1);
  shape[0] = -1;
  const auto by_channel = [&](std::string_view key) {
    return o.g.reshape(o.part(key), o.value(key), shape);
  };
  const ValueId in = o.g.op("mul", o.part("scaled"), {x, by_channel("beta")});
  return {
      o.g.op("mul", o.name, {o.g.op("softplus", o.part("softplus"), {in}), by_channel("alpha")})};
}

Values quantised(Operation& o) {
  const bool down = o.type == "quantize";
  const ValueId x = o.value("input"), scale = o.value("scale");
  Values in{x, scale};
  if (o.has("zero_point")) in.push_back(o.value("zero_point"));
  Fields f;
  if (o.has("axis")) f.emplace_back("axis", o.integer("axis", 0));
  if (down && in.size() == 2)
    f.emplace_back("output_dtype",
                   std::string(o.text("output_dtype", "uint8") == "int8" ? "i8" : "u8"));
  return {o.g.op(down ? "quantize_linear" : "dequantize_linear", o.name, in, f)};
}

Values unshuffled(Operation& o) {
  const ValueId x = o.value("x");
  return {o.g.op("space_to_depth", o.name, {x},
                 {{"blocksize", o.integer("downscale_factor", 1)}, {"mode", std::string("CRD")}})};
}

}  // namespace

std::vector<ValueId> translate_more(Operation& o) {
  constexpr OperationRow kRows[] = {{"topk", top_k},
                                    {"argsort", arg_sort},
                                    {"fill", filled},
                                    {"fill_like", filled},
                                    {"one_hot", one_hot},
                                    {"reverse", reversed},
                                    {"scatter", scattered},
                                    {"scatter_along_axis", scattered},
                                    {"scatter_nd", scattered},
                                    {"band_part", band},
                                    {"non_maximum_suppression", suppressed},
                                    {"crop", cropped},
                                    {"l2_norm", l2_norm},
                                    {"scaled_dot_product_attention", attention},
                                    {"einsum", einsum},
                                    {"range_1d", range},
                                    {"non_zero", coordinates},
                                    {"softplus_parametric", softplus},
                                    {"quantize", quantised},
                                    {"dequantize", quantised},
                                    {"pixel_unshuffle", unshuffled}};
  return translate_among(kRows, o);
}

}  // namespace etalon::coreml
