// Activation functions, softmax, dropout at inference.
#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"relu", {"self"}},
    {"relu6", {"self"}},
    {"leaky_relu", {"self", "negative_slope"}},
    {"prelu", {"self", "weight"}},
    {"rrelu", {"self", "lower", "upper", "training", "generator"}},
    {"elu", {"self", "alpha", "scale", "input_scale"}},
    {"celu", {"self", "alpha"}},
    {"selu", {"self"}},
    {"gelu", {"self", "approximate"}},
    {"silu", {"self"}},
    {"mish", {"self"}},
    {"tanh", {"self"}},
    {"sigmoid", {"self"}},
    {"log_sigmoid", {"self"}},
    {"hardtanh", {"self", "min_val", "max_val"}},
    {"hardsigmoid", {"self"}},
    {"hardswish", {"self"}},
    {"hardshrink", {"self", "lambd"}},
    {"softshrink", {"self", "lambd"}},
    {"softplus", {"self", "beta", "threshold"}},
    {"softsign", {"self"}},
    {"threshold", {"self", "threshold", "value"}},
    {"glu", {"self", "dim"}},
    {"softmax", {"self", "dim", "dtype"}},
    {"log_softmax", {"self", "dim", "dtype"}},
    {"_softmax", {"self", "dim", "half_to_float"}},
    {"_log_softmax", {"self", "dim", "half_to_float"}},
    {"dropout", {"input", "p", "train"}},
    {"feature_dropout", {"input", "p", "train"}},
    {"alpha_dropout", {"input", "p", "train"}},
    {"feature_alpha_dropout", {"input", "p", "train"}},
    {"native_dropout", {"input", "p", "train"}},
};

// scale * (x > 0 ? x : alpha (exp(input_scale x) - 1)); selu is written so after decomposition.
ValueId elu(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  if (c.number("input_scale", 1) != 1) throw AtenUnknown{"elu with a scale of its input"};
  const float alpha = c.number("alpha", 1), scale = c.number("scale", 1);
  if (scale == 1) return b.op("elu", name, {x}, {{"alpha", alpha}});
  return b.op("selu", name, {x}, {{"alpha", alpha}, {"gamma", scale}});
}

ValueId prelu(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  ValueId slope = c.tensor("weight");
  if (slope == kAbsent) throw AtenUnknown{"prelu without slopes"};
  if (b.shape(slope).numel() > 1) {
    if (b.rank(x) < 2) throw AtenUnknown{"prelu of a vector with several slopes"};
    Ints shape(static_cast<std::size_t>(b.rank(x)) - 1, 1);
    shape.at(0) = b.shape(slope).numel();
    slope = b.reshape(name + ".slopes", slope, shape);
  }
  return b.op("prelu", name, {x, slope});
}

ValueId glu(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const std::int64_t axis = aten_axis(b, x, c.integer("dim", -1));
  if (extent_of(b, x, axis) % 2 != 0) throw bad_input("glu of an odd extent");
  const auto halves =
      b.nodes("split", name + ".halves", {x},
              make_params(get_op("split"), {{"axis", axis}, {"num_outputs", std::int64_t{2}}}), 2);
  return b.op("mul", name, {halves[0], b.op("sigmoid", name + ".gate", {halves[1]})});
}

// x > threshold ? x : value; NaN stays.
ValueId threshold(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const auto number = [&](const char* key) {
    return b.constant(name + "." + key, scalar_of(b.dtype(x), c.real(key, 0)));
  };
  const ValueId least = number("threshold"), value = number("value");
  return b.op("where", name, {b.op("less_or_equal", name + ".below", {x, least}), value, x});
}

ValueId hard_sigmoid(GraphBuilder& b, const std::string& name, ValueId x) {
  // relu6(x + 3) / 6; both frameworks and ours with a slope of f32 1/6.
  return b.op("hard_sigmoid", name, {x}, {{"alpha", 1.0F / 6.0F}, {"beta", 0.5F}});
}

ValueId softmax(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                const AtenCall& c) {
  if (c.find("dim") == nullptr) throw AtenUnknown{op + " without its axis"};
  if (c.flag("half_to_float", false)) x = aten_cast(b, name, x, DType::f32);
  x = cast_as_told(b, name, x, c);
  return b.op(op.starts_with('_') ? op.substr(1) : op, name, {x}, {{"axis", c.integer("dim", -1)}});
}

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  const ValueId x = first_tensor(c, op);
  if (op.find("dropout") != op.npos) {
    if (c.flag("train", false)) throw AtenUnknown{op + " in training"};
    return {x};
  }
  if (op.ends_with("softmax")) return {softmax(b, op, name, x, c)};
  if (op == "leaky_relu")
    return {b.op(op, name, {x}, {{"alpha", c.number("negative_slope", 0.01F)}})};
  if (op == "prelu") return {prelu(b, name, x, c)};
  if (op == "rrelu") {
    if (c.flag("training", false)) throw AtenUnknown{"rrelu in training"};
    const double slope = (c.real("lower", 0.125) + c.real("upper", 1.0 / 3)) / 2;
    return {b.op("leaky_relu", name, {x}, {{"alpha", static_cast<float>(slope)}})};
  }
  if (op == "elu") return {elu(b, name, x, c)};
  if (op == "celu") return {b.op(op, name, {x}, {{"alpha", c.number("alpha", 1)}})};
  if (op == "gelu") {
    const AtenValue* how = c.find("approximate");
    return {b.op(op, name, {x}, {{"approximate", how == nullptr ? "none" : how->text}})};
  }
  if (op == "hardtanh" || op == "relu6")
    return {b.op("hard_tanh", name, {x},
                 {{"min", op == "relu6" ? 0.0F : c.number("min_val", -1)},
                  {"max", op == "relu6" ? 6.0F : c.number("max_val", 1)}})};
  if (op == "hardsigmoid") return {hard_sigmoid(b, name, x)};
  if (op == "hardswish") return {b.op("mul", name, {x, hard_sigmoid(b, name + ".gate", x)})};
  if (op == "hardshrink") return {b.op("shrink", name, {x}, {{"lambd", c.number("lambd", 0.5F)}})};
  if (op == "softshrink") return {b.op(op, name, {x}, {{"lambd", c.number("lambd", 0.5F)}})};
  if (op == "softplus")
    return {b.op(op, name, {x},
                 {{"beta", c.number("beta", 1)}, {"threshold", c.number("threshold", 20)}})};
  if (op == "threshold") return {threshold(b, name, x, c)};
  if (op == "glu") return {glu(b, name, x, c)};
  return {b.op(op, name, {x})};  // named alike and without settings
}

}  // namespace

AtenFamily activation_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
