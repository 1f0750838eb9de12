// Elementwise ops.
//
// Before opset 7 a second operand broadcast only with broadcast=1: its axes then lie under those of
// the first from `axis` on, or under the last ones. That becomes an unsqueeze of trailing axes.
#include <algorithm>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/onnx/families.h"

namespace etalon::onnx_format {
namespace {

// The operands of a binary op, the second one aligned as opsets 1 to 6 say.
std::vector<ValueId> operands(OnnxNode& n) {
  std::vector<ValueId> in{n.required(0), n.required(1)};
  if (n.opset() >= 7) return in;
  n.ignore("consumed_inputs");
  const bool broadcast = n.flag("broadcast", false);
  if (!n.has_attribute("axis") || !broadcast) {
    n.ignore("axis");
    return in;
  }
  const int a = n.rank_of(0, "where `axis` puts the second operand"),
            b = n.rank_of(1, "where `axis` puts the second operand");
  const int axis = normalize_axis(n.integer("axis", 0), a);
  Ints trailing;
  for (int i = axis + b; i < a; ++i) trailing.push_back(i - axis);
  if (axis + b > a)
    throw bad_input("the second operand of rank {} does not fit at axis {} of rank {}", b, axis, a);
  if (trailing.empty()) return in;
  n.note(
      fmt::format("{} with broadcast=1, axis={}: the second operand got {} trailing axes of "
                  "extent 1",
                  n.type(), axis, trailing.size()));
  in[1] = n.step("unsqueeze", {{"axes", trailing}}, {in[1]});
  return in;
}

void binary(OnnxNode& n, std::string_view op, const Fields& fields = {}) {
  n.emit(op, fields, operands(n), n.outputs());
}

void unary(OnnxNode& n, std::string_view op, const Fields& fields = {}) {
  n.ignore("consumed_inputs");
  n.emit(op, fields, {n.required(0)}, n.outputs());
}

// The end of an element type's finite range as a float, where it has one.
std::optional<float> largest(std::optional<DType> dtype) {
  if (!dtype) return std::nullopt;
  if (*dtype == DType::f32) return std::numeric_limits<float>::max();
  if (*dtype == DType::f16) return 65504.0F;
  if (*dtype == DType::bf16) return 0x1.fep127F;
  return std::nullopt;
}

void clip(OnnxNode& n) {
  n.ignore("consumed_inputs");
  // From opset 6 on a missing bound is the type's largest finite number, not infinity.
  const auto bound = n.opset() >= 6 ? largest(n.dtype_of(0)) : std::nullopt;
  const float inf = std::numeric_limits<float>::infinity(), end = bound.value_or(inf);
  std::vector<ValueId> in{n.required(0)};
  Fields f;
  if (n.opset() < 11) {
    f = {{"min", n.number("min", -end)}, {"max", n.number("max", end)}};
  } else {
    f = {{"min", -end}, {"max", end}};
    if (n.has(1) || n.has(2)) in.push_back(n.input(1));
    if (n.has(2)) in.push_back(n.input(2));
  }
  n.emit("clip", f, in, n.outputs());
}

// The number of the element type in attribute `to`.
std::int32_t cast_target(OnnxNode& n) {
  if (n.opset() >= 6) {
    if (!n.has_attribute("to")) throw bad_input("attribute to is missing");
    return static_cast<std::int32_t>(
        std::clamp<std::int64_t>(n.integer("to", 0), 0, std::numeric_limits<std::int32_t>::max()));
  }
  constexpr std::pair<std::string_view, std::int32_t> kNames[] = {
      {"FLOAT", 1}, {"UINT8", 2}, {"INT8", 3},     {"UINT16", 4},  {"INT16", 5},   {"INT32", 6},
      {"INT64", 7}, {"BOOL", 9},  {"FLOAT16", 10}, {"DOUBLE", 11}, {"UINT32", 12}, {"UINT64", 13}};
  const std::string to = n.text("to", "");
  for (const auto& [name, number] : kNames)
    if (name == to) return number;
  throw bad_input("attribute to is '{}', which is no element type here", printable(to));
}

// Input 0 as numbers: codes of a floating format are decoded first.
ValueId numbers(OnnxNode& n) {
  const ValueId x = n.required(0);
  const auto code = n.code_of_input(0);
  if (!code || is_integer_code(*code)) return x;
  return n.step("decode", {{"format", std::string(name(*code))}}, {x});
}

void encode(OnnxNode& n, Code format) {
  n.emit("encode",
         {{"format", std::string(name(format))},
          {"saturate", n.flag("saturate", true)},
          {"round_mode", n.text("round_mode", "up")}},
         {numbers(n)}, {n.output(0)});
  n.set_code(0, format);
  n.note(fmt::format("its result, numbers of {}, is held a byte each", name(format)));
}

void cast_to(OnnxNode& n, DType to) {
  n.ignore("saturate");    // speaks of 8-bit floats only
  n.ignore("round_mode");  // likewise
  if (!is_floating(to) && to != DType::boolean)
    n.note(
        "Cast of a float outside the integer type's range, or of NaN, is not defined by ONNX; "
        "here it stops at the ends of the type, NaN gives 0");
  n.emit("cast", {{"to", std::string(name(to))}}, {numbers(n)}, n.outputs());
}

void cast(OnnxNode& n) {
  const std::int32_t to = cast_target(n);
  if (const auto code = code_of_onnx(to)) return encode(n, *code);
  cast_to(n, dtype_of_onnx(to));
}

void cast_like(OnnxNode& n) {
  if (const auto code = n.code_of_input(1)) return encode(n, *code);
  if (const auto to = n.dtype_of(1)) return cast_to(n, *to);
  n.ignore("saturate");
  n.ignore("round_mode");
  n.emit("cast_like", {}, {numbers(n), n.required(1)}, n.outputs());
}

// Before opset 7 the slope was one number or one for each channel (axis 1).
void prelu(OnnxNode& n) {
  n.ignore("consumed_inputs");
  std::vector<ValueId> in{n.required(0), n.required(1)};
  if (n.opset() < 7) {
    const Tensor* slope = n.constant(1);
    const int rank = n.rank_of(0, "along which axis the slopes lie");
    if (slope == nullptr || slope->shape().rank() != 1 || slope->numel() != 1) {
      Ints trailing;
      for (int i = 2; i < rank; ++i) trailing.push_back(i - 1);
      if (!trailing.empty()) in[1] = n.step("unsqueeze", {{"axes", trailing}}, {in[1]});
    }
  }
  n.emit("prelu", {}, in, n.outputs());
}

// Opset 1 rounded the two constants to four digits.
void selu(OnnxNode& n) {
  const bool old = n.opset() < 6;
  unary(n, "selu",
        {{"alpha", n.number("alpha", old ? 1.6732F : 1.67326319217681884765625F)},
         {"gamma", n.number("gamma", old ? 1.0507F : 1.05070102214813232421875F)}});
}

void variadic(OnnxNode& n, std::string_view op) {
  n.ignore("consumed_inputs");
  if (n.input_count() == 0) throw bad_input("{} without an input", n.type());
  n.emit(op);
}

constexpr TranslatorRow kRows[] = {
    {"Add", [](OnnxNode& n) { binary(n, "add"); }},
    {"Sub", [](OnnxNode& n) { binary(n, "sub"); }},
    {"Mul", [](OnnxNode& n) { binary(n, "mul"); }},
    {"Div", [](OnnxNode& n) { binary(n, "div"); }},
    {"Pow", [](OnnxNode& n) { binary(n, "pow"); }},
    {"Mod", [](OnnxNode& n) { binary(n, "mod", {{"fmod", n.flag("fmod", false)}}); }},
    {"PRelu", prelu},
    {"Max", [](OnnxNode& n) { variadic(n, "max"); }},
    {"Min", [](OnnxNode& n) { variadic(n, "min"); }},
    {"Sum", [](OnnxNode& n) { variadic(n, "sum"); }},
    {"Mean", [](OnnxNode& n) { variadic(n, "mean"); }},
    {"Clip", clip},
    {"Equal", [](OnnxNode& n) { binary(n, "equal"); }},
    {"Less", [](OnnxNode& n) { binary(n, "less"); }},
    {"Greater", [](OnnxNode& n) { binary(n, "greater"); }},
    {"LessOrEqual", [](OnnxNode& n) { binary(n, "less_or_equal"); }},
    {"GreaterOrEqual", [](OnnxNode& n) { binary(n, "greater_or_equal"); }},
    {"And", [](OnnxNode& n) { binary(n, "and"); }},
    {"Or", [](OnnxNode& n) { binary(n, "or"); }},
    {"Xor", [](OnnxNode& n) { binary(n, "xor"); }},
    {"Not", [](OnnxNode& n) { unary(n, "not"); }},
    {"BitwiseAnd", [](OnnxNode& n) { binary(n, "bitwise_and"); }},
    {"BitwiseOr", [](OnnxNode& n) { binary(n, "bitwise_or"); }},
    {"BitwiseXor", [](OnnxNode& n) { binary(n, "bitwise_xor"); }},
    {"BitwiseNot", [](OnnxNode& n) { unary(n, "bitwise_not"); }},
    {"BitShift",
     [](OnnxNode& n) {
       const std::string direction = n.text("direction", "");
       if (direction != "LEFT" && direction != "RIGHT")
         throw bad_input("direction is '{}', expected LEFT or RIGHT", printable(direction));
       binary(n, "bit_shift", {{"direction", direction}});
     }},
    {"IsNaN", [](OnnxNode& n) { unary(n, "is_nan"); }},
    {"IsInf",
     [](OnnxNode& n) {
       unary(n, "is_inf",
             {{"detect_negative", n.flag("detect_negative", true)},
              {"detect_positive", n.flag("detect_positive", true)}});
     }},
    {"Where", [](OnnxNode& n) { n.emit("where"); }},
    {"Cast", cast},
    {"CastLike", cast_like},
    {"BitCast",
     [](OnnxNode& n) {
       const auto to = dtype_of_onnx(static_cast<std::int32_t>(n.integer("to", 0) & 0xffff));
       n.emit("bit_cast", {{"to", std::string(name(to))}});
     }},
    {"Relu", [](OnnxNode& n) { unary(n, "relu"); }},
    {"Abs", [](OnnxNode& n) { unary(n, "abs"); }},
    {"Neg", [](OnnxNode& n) { unary(n, "neg"); }},
    {"Exp", [](OnnxNode& n) { unary(n, "exp"); }},
    {"Log", [](OnnxNode& n) { unary(n, "log"); }},
    {"Sqrt", [](OnnxNode& n) { unary(n, "sqrt"); }},
    {"Reciprocal", [](OnnxNode& n) { unary(n, "reciprocal"); }},
    {"Floor", [](OnnxNode& n) { unary(n, "floor"); }},
    {"Ceil", [](OnnxNode& n) { unary(n, "ceil"); }},
    {"Round", [](OnnxNode& n) { unary(n, "round"); }},
    {"Sign", [](OnnxNode& n) { unary(n, "sign"); }},
    {"Sin", [](OnnxNode& n) { unary(n, "sin"); }},
    {"Cos", [](OnnxNode& n) { unary(n, "cos"); }},
    {"Tan", [](OnnxNode& n) { unary(n, "tan"); }},
    {"Asin", [](OnnxNode& n) { unary(n, "asin"); }},
    {"Acos", [](OnnxNode& n) { unary(n, "acos"); }},
    {"Atan", [](OnnxNode& n) { unary(n, "atan"); }},
    {"Sinh", [](OnnxNode& n) { unary(n, "sinh"); }},
    {"Cosh", [](OnnxNode& n) { unary(n, "cosh"); }},
    {"Asinh", [](OnnxNode& n) { unary(n, "asinh"); }},
    {"Acosh", [](OnnxNode& n) { unary(n, "acosh"); }},
    {"Atanh", [](OnnxNode& n) { unary(n, "atanh"); }},
    {"Tanh", [](OnnxNode& n) { unary(n, "tanh"); }},
    {"Sigmoid", [](OnnxNode& n) { unary(n, "sigmoid"); }},
    {"Erf", [](OnnxNode& n) { unary(n, "erf"); }},
    {"Softplus", [](OnnxNode& n) { unary(n, "softplus"); }},
    {"Softsign", [](OnnxNode& n) { unary(n, "softsign"); }},
    {"Mish", [](OnnxNode& n) { unary(n, "mish"); }},
    {"HardSwish", [](OnnxNode& n) { unary(n, "hard_swish"); }},
    {"LeakyRelu",
     [](OnnxNode& n) { unary(n, "leaky_relu", {{"alpha", n.number("alpha", 0.01F)}}); }},
    {"ThresholdedRelu",
     [](OnnxNode& n) { unary(n, "thresholded_relu", {{"alpha", n.number("alpha", 1.0F)}}); }},
    {"Elu", [](OnnxNode& n) { unary(n, "elu", {{"alpha", n.number("alpha", 1.0F)}}); }},
    {"Celu", [](OnnxNode& n) { unary(n, "celu", {{"alpha", n.number("alpha", 1.0F)}}); }},
    {"Selu", selu},
    {"HardSigmoid",
     [](OnnxNode& n) {
       unary(n, "hard_sigmoid",
             {{"alpha", n.number("alpha", 0.2F)}, {"beta", n.number("beta", 0.5F)}});
     }},
    {"Shrink",
     [](OnnxNode& n) {
       unary(n, "shrink", {{"lambd", n.number("lambd", 0.5F)}, {"bias", n.number("bias", 0.0F)}});
     }},
    {"Gelu",
     [](OnnxNode& n) { unary(n, "gelu", {{"approximate", n.text("approximate", "none")}}); }},
    {"Swish", [](OnnxNode& n) { unary(n, "silu", {{"alpha", n.number("alpha", 1.0F)}}); }},
};

}  // namespace

std::span<const TranslatorRow> elementwise_family() { return kRows; }

}  // namespace etalon::onnx_format
