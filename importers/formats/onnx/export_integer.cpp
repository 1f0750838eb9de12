// Products of integers. TensorFlow Lite's arithmetic has no form in ONNX; its ops are written as
// what they approximate, DequantizeLinear, the op on floats, QuantizeLinear, which differs from
// them in the rounding of the last integer.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/onnx/export.h"

namespace etalon::onnx_format {
namespace {

Tensor one_integer(DType dtype, std::int64_t value) {
  Tensor t = Tensor::uninitialized(dtype, {});
  if (dtype == DType::i16)
    t.mutable_data<std::int16_t>()[0] = static_cast<std::int16_t>(value);
  else
    t.mutable_bytes()[0] = static_cast<std::byte>(value);
  return t;
}

std::string scale(NodeWriter& w, std::string_view role, const std::vector<float>& values) {
  const bool one = values.size() == 1;
  return w.constant(
      role, Tensor::of<float>(one ? Shape{} : Shape{static_cast<std::int64_t>(values.size())},
                              std::span<const float>(values)));
}

std::string real(NodeWriter& w, std::size_t i, float by, std::int64_t zero) {
  return w.step("DequantizeLinear", {w.input(i), scale(w, "scale", {by}),
                                     w.constant("zero", one_integer(w.dtype(i), zero))});
}

// Held to the activation, then quantised.
void quantised(NodeWriter& w, std::string y, DType to) {
  const float by = w.number("y_scale");
  const std::int64_t zero = w.integer("y_zero");
  const std::int64_t ends[] = {w.integer("act_min"), w.integer("act_max")};
  std::string bounds[2];
  for (std::size_t i = 0; i < 2; ++i)
    if (ends[i] > std::numeric_limits<std::int32_t>::min() &&
        ends[i] < std::numeric_limits<std::int32_t>::max())
      bounds[i] =
          w.constant("bound", Tensor::of<float>({}, {static_cast<float>(ends[i] - zero) * by}));
  if (!bounds[0].empty() || !bounds[1].empty()) y = w.step("Clip", {y, bounds[0], bounds[1]});
  w.write("QuantizeLinear",
          {y, scale(w, "y_scale", {by}), w.constant("y_zero", one_integer(to, zero))}, w.outputs());
}

// w and the bias as floats.
std::pair<std::string, std::string> weights(NodeWriter& w) {
  const auto& scales = w.param<std::vector<float>>("w_scales");
  std::vector<std::string> in{w.input(1), scale(w, "w_scale", scales)};
  if (w.integer("w_zero") != 0)
    in.push_back(w.constant("w_zero", one_integer(w.dtype(1), w.integer("w_zero"))));
  const std::string weight = w.new_name("weight");
  set(w.write("DequantizeLinear", in, {weight}), "axis", std::int64_t{0});
  if (!w.has(2)) return {weight, ""};
  std::vector<float> both;
  for (const float s : scales) both.push_back(s * w.number("x_scale"));
  const std::string bias =
      w.step("Mul", {w.step("Cast", {w.input(2)}, "to", 1), scale(w, "bias_scale", both)});
  return {weight, bias};
}

void window(NodeWriter& w, pb::NodeProto& n) {
  const std::string& automatic = w.text("auto_pad");
  if (automatic == "explicit") {
    Ints pads = w.integers("pads_begin");
    const Ints& end = w.integers("pads_end");
    pads.insert(pads.end(), end.begin(), end.end());
    if (!pads.empty()) set(n, "pads", pads);
  } else {
    set(n, "auto_pad",
        automatic == "valid"        ? "VALID"
        : automatic == "same_upper" ? "SAME_UPPER"
                                    : "SAME_LOWER");
  }
  if (!w.integers("strides").empty()) set(n, "strides", w.integers("strides"));
  if (!w.integers("dilations").empty()) set(n, "dilations", w.integers("dilations"));
}

void conv_integer(NodeWriter& w) {
  pb::NodeProto& n = w.write("ConvInteger");
  window(w, n);
  set(n, "group", w.integer("groups"));
}

void conv(NodeWriter& w) {
  const std::string x = real(w, 0, w.number("x_scale"), w.integer("x_zero"));
  const auto [weight, bias] = weights(w);
  const std::string y = w.new_name("y");
  pb::NodeProto& n = w.write("Conv", {x, weight, bias}, {y});
  window(w, n);
  set(n, "group", w.integer("groups"));
  quantised(w, y, w.dtype());
}

void fully_connected(NodeWriter& w) {
  const std::string x = real(w, 0, w.number("x_scale"), w.integer("x_zero"));
  const auto [weight, bias] = weights(w);
  std::string y = w.step("MatMul", {x, w.step("Transpose", {weight})});
  if (!bias.empty()) y = w.step("Add", {y, bias});
  quantised(w, y, w.dtype());
}

void binary(NodeWriter& w, std::string_view type) {
  const std::string a = real(w, 0, w.number("a_scale"), w.integer("a_zero")),
                    b = real(w, 1, w.number("b_scale"), w.integer("b_zero"));
  quantised(w, w.step(type, {a, b}), w.dtype());
}

void unary(NodeWriter& w, std::string_view type) {
  if (w.dtype(0) == DType::i32 || w.text("output_dtype") == "i32")
    throw usage_error("tflite_requantize from or to i32 has no form in ONNX");
  std::string x = real(w, 0, w.number("x_scale"), w.integer("x_zero"));
  if (type == "Softmax" && w.number("beta") != 1.0F)
    x = w.step("Mul", {x, scale(w, "beta", {w.number("beta")})});
  const std::string& named = w.text("output_dtype");
  const DType to = named.empty() ? w.dtype() : parse_dtype(named);
  quantised(w, type.empty() ? x : w.step(type, {x}), to);
}

// Hybrid ops, with the numbers that their weights stand for.
std::string real_weights(NodeWriter& w, std::int64_t axis) {
  const std::string weight = w.new_name("weight");
  set(w.write("DequantizeLinear",
              {w.input(1), scale(w, "w_scale", w.param<std::vector<float>>("w_scales"))}, {weight}),
      "axis", axis);
  return weight;
}

void hybrid_fully_connected(NodeWriter& w) {
  const std::string weight = w.step("Transpose", {real_weights(w, 0)});
  if (!w.has(2)) {
    w.write("MatMul", {w.input(0), weight}, w.outputs());
    return;
  }
  w.write("Add", {w.step("MatMul", {w.input(0), weight}), w.input(2)}, w.outputs());
}

void hybrid_conv(NodeWriter& w) {
  std::vector<std::string> in{w.input(0), real_weights(w, 0)};
  if (w.has(2)) in.push_back(w.input(2));
  pb::NodeProto& n = w.write("Conv", in, w.outputs());
  window(w, n);
  set(n, "group", w.integer("groups"));
}

void hybrid_batch_matmul(NodeWriter& w) {
  w.write("MatMul", {w.input(0), real_weights(w, -1)}, w.outputs());
}

void quantize(NodeWriter& w) {
  const std::string& named = w.text("output_dtype");
  quantised(w, w.input(0), named.empty() ? DType::i8 : parse_dtype(named));
}

// Of the integers themselves, rounded by QuantizeLinear.
void rounded(NodeWriter& w, const std::string& y) {
  w.write("QuantizeLinear",
          {y, scale(w, "one", {1.0F}), w.constant("zero", one_integer(w.dtype(), 0))}, w.outputs());
}

void avg_pool(NodeWriter& w) {
  const std::string x = real(w, 0, 1.0F, 0), y = w.new_name("mean");
  pb::NodeProto& n = w.write("AveragePool", {x}, {y});
  window(w, n);
  set(n, "kernel_shape", w.integers("kernel"));
  if (w.flag("ceil_mode")) set(n, "ceil_mode", std::int64_t{1});
  rounded(w, y);
}

void reduced(NodeWriter& w, std::string_view type) {
  const std::string x = real(w, 0, w.number("x_scale"), w.integer("x_zero")),
                    y = w.new_name("reduced");
  pb::NodeProto& n = w.write(type, {x, w.input_or(1, "axes")}, {y});
  set(n, "keepdims", std::int64_t{w.flag("keepdims")});
  set(n, "noop_with_empty_axes", std::int64_t{w.flag("noop_with_empty_axes")});
  quantised(w, y, w.dtype());
}

void squared_difference(NodeWriter& w) {
  const std::string a = real(w, 0, w.number("a_scale"), w.integer("a_zero")),
                    b = real(w, 1, w.number("b_scale"), w.integer("b_zero"));
  const std::string difference = w.step("Sub", {a, b});
  quantised(w, w.step("Mul", {difference, difference}), w.dtype());
}

// On the scale and zero point that the op has by definition.
void own_scale(NodeWriter& w, std::string_view type, float by, std::int64_t zero) {
  const bool is_log = type == "LogSoftmax";
  const std::string x = real(w, 0, is_log ? w.number("x_scale") : 1.0F,
                             is_log ? 0 : w.integer("x_zero")),
                    y = w.new_name("y");
  set(w.write(type, {x}, {y}), "axis", std::int64_t{-1});
  w.write("QuantizeLinear",
          {y, scale(w, "y_scale", {by}), w.constant("y_zero", one_integer(w.dtype(), zero))},
          w.outputs());
}

void resize_bilinear(NodeWriter& w) {
  const std::string x = real(w, 0, 1.0F, 0), y = w.new_name("resized");
  pb::NodeProto& n = w.write("Resize", {x, "", "", w.constant("sizes", w.integers("sizes"))}, {y});
  set(n, "mode", "linear");
  set(n, "axes", Ints{2, 3});
  set(n, "coordinate_transformation_mode",
      w.flag("align_corners") ? "align_corners"
      : w.flag("half_pixel")  ? "half_pixel"
                              : "asymmetric");
  rounded(w, y);
}

void encode(NodeWriter& w) {
  Code format = Code::f8e4m3fn;
  for (int i = 0; i <= static_cast<int>(Code::u2); ++i)
    if (name(static_cast<Code>(i)) == w.text("format")) format = static_cast<Code>(i);
  const bool integer = is_integer_code(format);
  if (!integer && code_bits(format) < 8)
    throw usage_error("encode to {} has no form in ONNX", name(format));
  const std::string codes = w.new_name("codes");
  pb::NodeProto& cast = w.write("Cast", {w.input(0)}, {codes});
  set(cast, "to", std::int64_t{onnx_of_code(format)});
  if (!w.flag("saturate")) set(cast, "saturate", std::int64_t{0});
  pb::NodeProto& n = w.write(integer ? "Cast" : "BitCast", {codes}, w.outputs());
  set(n, "to", std::int64_t{onnx_of_dtype(code_storage(format))});
  w.need_opset(integer ? 25 : 26);
}

// A table of the 256 values.
void decode(NodeWriter& w) {
  Code format = Code::f8e4m3fn;
  for (int i = 0; i <= static_cast<int>(Code::u2); ++i)
    if (name(static_cast<Code>(i)) == w.text("format")) format = static_cast<Code>(i);
  std::vector<float> values;
  for (int i = 0; i < 256; ++i) {
    const auto v = static_cast<float>(code_value(format, static_cast<std::uint8_t>(i)));
    values.push_back(v == v ? v : std::numeric_limits<float>::quiet_NaN());
  }
  const std::string table =
      w.constant("values", Tensor::of<float>({256}, std::span<const float>(values)));
  w.write("Gather", {table, w.step("Cast", {w.input(0)}, "to", 6)}, w.outputs());
}

constexpr WriterRow kRows[] = {
    {"encode", encode},
    {"decode", decode},
    {"conv_integer", conv_integer},
    {"tflite_conv", conv},
    {"tflite_fully_connected", fully_connected},
    {"tflite_add", [](NodeWriter& w) { binary(w, "Add"); }},
    {"tflite_sub", [](NodeWriter& w) { binary(w, "Sub"); }},
    {"tflite_mul", [](NodeWriter& w) { binary(w, "Mul"); }},
    {"tflite_avg_pool", avg_pool},
    {"tflite_mean", [](NodeWriter& w) { reduced(w, "ReduceMean"); }},
    {"tflite_sum", [](NodeWriter& w) { reduced(w, "ReduceSum"); }},
    {"tflite_prod", [](NodeWriter& w) { reduced(w, "ReduceProd"); }},
    {"tflite_batch_matmul", [](NodeWriter& w) { binary(w, "MatMul"); }},
    {"tflite_div", [](NodeWriter& w) { binary(w, "Div"); }},
    {"tflite_squared_difference", squared_difference},
    {"tflite_l2_normalize",
     [](NodeWriter& w) {
       own_scale(w, "LpNormalization", 1.0F / 128, w.dtype() == DType::u8 ? 128 : 0);
     }},
    {"tflite_log_softmax",
     [](NodeWriter& w) {
       own_scale(w, "LogSoftmax", 1.0F / 16, w.dtype() == DType::u8 ? 255 : 127);
     }},
    {"tflite_resize_bilinear", resize_bilinear},
    {"tflite_requantize", [](NodeWriter& w) { unary(w, ""); }},
    {"tflite_quantize", quantize},
    {"tflite_softmax", [](NodeWriter& w) { unary(w, "Softmax"); }},
    {"tflite_logistic", [](NodeWriter& w) { unary(w, "Sigmoid"); }},
    {"tflite_tanh", [](NodeWriter& w) { unary(w, "Tanh"); }},
    {"tflite_hybrid_fully_connected", hybrid_fully_connected},
    {"tflite_hybrid_conv", hybrid_conv},
    {"tflite_hybrid_batch_matmul", hybrid_batch_matmul},
};

}  // namespace

std::span<const WriterRow> integer_writers() { return kRows; }

}  // namespace etalon::onnx_format
