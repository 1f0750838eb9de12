// Resize and its forerunner Upsample.
//
// Opset 10 and Upsample name no coordinates: output i is taken at i / scale, nearest is the element
// at or before it when growing, at or after it when shrinking (the test vectors of opset 10 show
// it). From opset 11 on every choice is an attribute.
#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

std::string mode_of(OnnxNode& n) {
  std::string mode = n.text("mode", "nearest");
  if (mode == "bilinear" || mode == "trilinear") mode = "linear";
  if (mode != "nearest" && mode != "linear" && mode != "cubic")
    throw bad_input("mode is '{}', expected nearest, linear or cubic", printable(mode));
  return mode;
}

// Upsample, and Resize of opset 10: coordinates i / scale.
void old_resize(OnnxNode& n) {
  const std::string mode = mode_of(n);
  Fields f{{"mode", mode}, {"coordinate_transformation_mode", "asymmetric"}};
  std::vector<float> scales;
  std::vector<ValueId> in{n.required(0)};
  if (n.type() == "Upsample" && n.opset() < 9) {
    scales = n.opset() < 7 ? std::vector<float>{1.0F, 1.0F, n.number("height_scale", 1.0F),
                                                n.number("width_scale", 1.0F)}
                           : n.numbers("scales");
    f.emplace_back("scales", scales);
  } else {
    const ValueId given = n.required(1);
    const Tensor* constant = n.constant(1);
    if (constant != nullptr && constant->dtype() == DType::f32)
      scales.assign(constant->data<float>().begin(), constant->data<float>().end());
    in.insert(in.end(), {kAbsent, given});
  }
  // Which element is the nearest is all that growing and shrinking tell apart.
  if (mode != "nearest") {
    n.note(fmt::format("{} of opset {} takes output i at i / scale", n.type(), n.opset()));
    n.emit("resize", f, in, n.outputs());
    return;
  }
  bool grows = n.type() == "Upsample", shrinks = false;
  for (const float s : scales) {
    grows = grows || s > 1;
    shrinks = shrinks || s < 1;
  }
  if (grows && shrinks)
    throw bad_input(
        "{} grows one axis and shrinks another, which opset {} does not define for "
        "nearest; convert the model to opset 11",
        n.type(), n.opset());
  if (scales.empty() && !grows)
    throw bad_input(
        "its scales come from a computation, and opset 10 means another element when "
        "shrinking; convert the model to opset 11");
  f.emplace_back("nearest_mode", shrinks ? "ceil" : "floor");
  n.note(fmt::format("{} of opset {} takes output i at i / scale, nearest by {}", n.type(),
                     n.opset(), shrinks ? "ceil" : "floor"));
  n.emit("resize", f, in, n.outputs());
}

void resize(OnnxNode& n) {
  if (n.opset() < 11) return old_resize(n);
  const auto choice = [&](std::string_view attribute, std::string_view otherwise,
                          std::initializer_list<std::string_view> known) {
    std::string value = n.text(attribute, otherwise);
    for (const std::string_view k : known)
      if (k == value) return value;
    throw bad_input("{} is '{}', which ONNX does not know", attribute, printable(value));
  };
  Fields f{{"mode", mode_of(n)},
           {"coordinate_transformation_mode",
            choice("coordinate_transformation_mode", "half_pixel",
                   {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                    "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"})},
           {"nearest_mode", choice("nearest_mode", "round_prefer_floor",
                                   {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"})},
           {"cubic_coeff_a", n.number("cubic_coeff_a", -0.75F)},
           {"exclude_outside", n.flag("exclude_outside", false)},
           {"extrapolation_value", n.number("extrapolation_value", 0.0F)}};
  if (n.opset() >= 18) {
    f.emplace_back("antialias", n.flag("antialias", false));
    f.emplace_back("axes", n.integers("axes"));
    f.emplace_back("keep_aspect_ratio_policy", choice("keep_aspect_ratio_policy", "stretch",
                                                      {"stretch", "not_larger", "not_smaller"}));
  }
  // An empty tensor in place of roi or scales says: not given.
  std::vector<ValueId> in{n.required(0)};
  for (std::size_t i = 1; i < 4; ++i) {
    const Tensor* constant = n.constant(i);
    in.push_back(constant != nullptr && constant->numel() == 0 ? kAbsent : n.input(i));
  }
  if (n.text("coordinate_transformation_mode", "") != "tf_crop_and_resize") in[1] = kAbsent;
  while (in.back() == kAbsent) in.pop_back();
  n.emit("resize", f, in, n.outputs());
}

constexpr TranslatorRow kRows[] = {{"Resize", resize}, {"Upsample", old_resize}};

}  // namespace

std::span<const TranslatorRow> resize_family() { return kRows; }

}  // namespace etalon::onnx_format
