// What stands before a network: pictures resized and cropped, numbers into bins and categories.
// Source: keras/src/layers/preprocessing (3.15), keras/src/backend/tensorflow/image.py.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/bicubic.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {
namespace {

void must_be_categories(std::int64_t n) {
  if (n < 1 || n > 1 << 24) throw bad_input("{} categories", n);
}

}  // namespace

// Coordinates as TensorFlow has them, half-pixel centres in f32.
ValueId Translator::resized(ValueId v, std::int64_t height, std::int64_t width,
                            const std::string& how) {
  if (height < 1 || width < 1) throw bad_input("pictures of {} x {}", height, width);
  if (how == "bicubic") {
    b_.note("Resizing by bicubic interpolation is TensorFlow's.");
    return b_.channels_first(
        tf::bicubic(b_, name_, b_.channels_last(v),
                    {.height = height, .width = width, .half_pixel_centers = true}));
  }
  if (how != "bilinear" && how != "nearest") throw UnknownLayer{"interpolation " + how};
  b_.note("Resizing takes half-pixel centres, coordinates in f32 (TensorFlow 2).");
  const bool linear = how == "bilinear";
  return b_.op("resize", name_, {v},
               {{"mode", std::string(linear ? "linear" : "nearest")},
                {"coordinate_transformation_mode",
                 std::string(linear ? "half_pixel" : "tf_half_pixel_for_nn")},
                {"nearest_mode", std::string("floor")},
                {"coordinates", std::string("f32")},
                {"axes", Ints{2, 3}},
                {"sizes", Ints{height, width}}});
}

ValueId Translator::resizing() {
  if (b_.rank(x()) != 4) throw UnknownLayer{"Resizing of other than pictures in a batch"};
  if (origin_.corners) throw UnknownLayer{"Resizing of TensorFlow.js"};  // by its corners aligned
  if (flag("antialias", false)) throw UnknownLayer{"Resizing with antialias"};
  if (flag("pad_to_aspect_ratio", false)) throw UnknownLayer{"Resizing that pads"};
  if (!is_floating(b_.dtype(x()))) throw UnknownLayer{"Resizing of integers"};
  const std::int64_t height = integer("height", 0), width = integer("width", 0);
  ValueId v = first(x());
  if (flag("crop_to_aspect_ratio", false)) {
    // The largest part about the middle of the shape that is asked for; quotients are cut, in f32.
    const Ints dims = b_.dims(v);
    if (dims[2] < 0 || dims[3] < 0) throw UnknownLayer{"Resizing of pictures of free extents"};
    const auto share = [](std::int64_t of, std::int64_t by, std::int64_t over) {
      return static_cast<std::int64_t>(static_cast<float>(of * by) / static_cast<float>(over));
    };
    const std::int64_t h = std::min(dims[2], share(dims[3], height, width));
    const std::int64_t w = std::min(dims[3], share(dims[2], width, height));
    const std::int64_t top = static_cast<std::int64_t>(static_cast<float>(dims[2] - h) / 2);
    const std::int64_t left = static_cast<std::int64_t>(static_cast<float>(dims[3] - w) / 2);
    v = b_.op(
        "slice", name_ + ".crop", {v},
        {{"starts", Ints{top, left}}, {"ends", Ints{top + h, left + w}}, {"axes", Ints{2, 3}}});
  }
  return last(resized(v, height, width, text("interpolation", "bilinear")));
}

ValueId Translator::center_crop() {
  if (b_.rank(x()) != 4) throw UnknownLayer{"CenterCrop of other than pictures in a batch"};
  const std::int64_t height = integer("height", 0), width = integer("width", 0);
  const ValueId v = first(x());
  const Ints dims = b_.dims(v);
  if (dims[2] < 0 || dims[3] < 0) throw UnknownLayer{"CenterCrop of pictures of free extents"};
  if (height < 1 || width < 1) throw bad_input("a crop of {} x {}", height, width);
  if (dims[2] < height || dims[3] < width)
    throw UnknownLayer{"CenterCrop that is larger than its pictures"};
  const std::int64_t top = (dims[2] - height) / 2, left = (dims[3] - width) / 2;
  return last(b_.op("slice", name_, {v},
                    {{"starts", Ints{top, left}},
                     {"ends", Ints{top + height, left + width}},
                     {"axes", Ints{2, 3}}}));
}

ValueId Translator::one_hot(ValueId indices, std::int64_t categories) {
  must_be_categories(categories);
  return b_.op(
      "one_hot", name_ + ".each",
      {indices,
       b_.constant(name_ + ".tokens", scalar_of(DType::i64, static_cast<double>(categories))),
       b_.constant(name_ + ".values", Tensor::of<float>({2}, {0, 1}))},
      {{"axis", std::int64_t{-1}}});
}

// The whole numbers of a row: which are there (multi_hot), how often (count), each (one_hot).
ValueId Translator::encoded(ValueId i, std::int64_t categories, const std::string& how) {
  must_be_categories(categories);
  if (how != "multi_hot" && how != "count" && how != "one_hot")
    throw UnknownLayer{c_.type + " of mode " + how};
  const int rank = b_.rank(i);
  if (how == "one_hot" ? rank > 2 : rank != 2) throw UnknownLayer{c_.type + " of other than rows"};
  if (how == "one_hot" && rank == 2 && b_.dims(i)[1] == 1)
    i = b_.op("squeeze", name_ + ".column", {i}, {{"axes", Ints{1}}});
  const ValueId hot = one_hot(i, categories);
  if (how == "one_hot") return hot;
  return b_.op(how == "count" ? "reduce_sum" : "reduce_max", name_, {hot},
               {{"axes", Ints{1}}, {"keepdims", false}});
}

ValueId Translator::category_encoding() {
  ValueId i = x();
  if (is_floating(b_.dtype(i)))
    i = b_.op("cast", name_ + ".indices", {i}, {{"to", std::string("i64")}});
  return encoded(i, integer("num_tokens", 0), text("output_mode", "multi_hot"));
}

// The number of boundaries that are not above.
ValueId Translator::discretization() {
  std::vector<float> edges;
  for (const json& e : list("bin_boundaries")) edges.push_back(as_float(e));
  if (edges.empty()) throw UnknownLayer{"Discretization without its boundaries"};
  const auto count = static_cast<std::int64_t>(edges.size());
  Tensor t = Tensor::uninitialized(DType::f32, {count});
  std::ranges::copy(edges, t.mutable_data<float>().begin());
  const ValueId each = b_.op("unsqueeze", name_ + ".bins", {x()}, {{"axes", Ints{b_.rank(x())}}});
  const ValueId above = b_.op("greater_or_equal", name_ + ".above",
                              {each, b_.constant(name_ + ".edges", std::move(t))});
  const ValueId bin = b_.op("reduce_sum", name_ + ".bin",
                            {b_.op("cast", name_ + ".ones", {above}, {{"to", std::string("i64")}})},
                            {{"axes", Ints{-1}}, {"keepdims", false}});
  const std::string how = text("output_mode", "int");
  return how == "int" ? bin : encoded(bin, count + 1, how);
}

// A number, a list of them, or an array as Keras 2 writes one.
std::vector<float> Translator::numbers(const json& v) {
  if (v.is_object() && v.contains("config") && v["config"].contains("value"))
    return numbers(v["config"]["value"]);
  if (!v.is_array()) return {as_float(v)};
  std::vector<float> out;
  for (const json& e : v) {
    const std::vector<float> inner = numbers(e);
    out.insert(out.end(), inner.begin(), inner.end());
  }
  return out;
}

// x * scale + offset; each a number, or one for each element of the last axis.
ValueId Translator::rescaling() {
  ValueId v = x();
  if (!is_floating(b_.dtype(v)))
    v = b_.op("cast", name_ + ".numbers", {v}, {{"to", std::string("f32")}});
  const auto by = [&](const char* key, float missing) {
    const json* how = find(key);
    const std::vector<float> all = how == nullptr ? std::vector{missing} : numbers(*how);
    const bool one = how == nullptr || how->is_number();
    Tensor t = Tensor::uninitialized(DType::f32,
                                     one ? Shape{} : Shape{static_cast<std::int64_t>(all.size())});
    std::ranges::copy(all, t.mutable_data<float>().begin());
    return b_.constant(name_ + "." + key, std::move(t));
  };
  const ValueId y = b_.elementwise("mul", name_ + ".scaled", {v, by("scale", 1)});
  return b_.elementwise("add", name_, {y, by("offset", 0)});
}

}  // namespace etalon::keras_format
