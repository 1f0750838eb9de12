// Elementwise functions, comparisons, reductions, conversions of type.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"pow", {"self", "exponent"}},
    {"rsub", {"self", "other", "alpha"}},
    {"maximum", {"self", "other"}},
    {"minimum", {"self", "other"}},
    {"max", {"self", "dim", "keepdim"}},
    {"min", {"self", "dim", "keepdim"}},
    {"floor_divide", {"self", "other"}},
    {"remainder", {"self", "other"}},
    {"fmod", {"self", "other"}},
    {"eq", {"self", "other"}},
    {"ne", {"self", "other"}},
    {"lt", {"self", "other"}},
    {"le", {"self", "other"}},
    {"gt", {"self", "other"}},
    {"ge", {"self", "other"}},
    {"logical_and", {"self", "other"}},
    {"logical_or", {"self", "other"}},
    {"logical_xor", {"self", "other"}},
    {"logical_not", {"self"}},
    {"bitwise_and", {"self", "other"}},
    {"bitwise_or", {"self", "other"}},
    {"bitwise_not", {"self"}},
    {"__and__", {"self", "other"}},
    {"__or__", {"self", "other"}},
    {"where", {"condition", "self", "other"}},
    {"masked_fill", {"self", "mask", "value"}},
    {"clamp", {"self", "min", "max"}},
    {"clamp_min", {"self", "min"}},
    {"clamp_max", {"self", "max"}},
    {"square", {"self"}},
    {"threshold", {"self", "threshold", "value"}},
    {"celu", {"self", "alpha"}},
    {"selu", {"self"}},
    {"log_sigmoid", {"self"}},
    {"hardshrink", {"self", "lambd"}},
    {"softshrink", {"self", "lambd"}},
    {"rrelu", {"self", "lower", "upper", "training"}},
    {"glu", {"self", "dim"}},
    {"isnan", {"self"}},
    {"isinf", {"self"}},
    {"addcmul", {"self", "tensor1", "tensor2", "value"}},
    {"addcdiv", {"self", "tensor1", "tensor2", "value"}},
    {"lerp", {"self", "end", "weight"}},
    {"amax", {"self", "dim", "keepdim"}},
    {"amin", {"self", "dim", "keepdim"}},
    {"argmax", {"self", "dim", "keepdim"}},
    {"argmin", {"self", "dim", "keepdim"}},
    {"topk", {"self", "k", "dim", "largest", "sorted"}},
    {"cumsum", {"self", "dim", "dtype"}},
    {"logsumexp", {"self", "dim", "keepdim"}},
    {"prod", {"self", "dim", "keepdim", "dtype"}},
    {"any", {"self", "dim", "keepdim"}},
    {"all", {"self", "dim", "keepdim"}},
    {"var", {"self", "dim", "unbiased", "keepdim"}},
    {"std", {"self", "dim", "unbiased", "keepdim"}},
    {"var_mean", {"self", "dim", "unbiased", "keepdim"}},
    {"norm", {"self", "p", "dim", "keepdim"}},
    {"linalg_vector_norm", {"self", "ord", "dim", "keepdim", "dtype"}},
    {"frobenius_norm", {"self", "dim", "keepdim"}},
    {"to", {"self", "dtype", "other"}},
    {"_to_copy", {"self", "dtype"}},
    {"type_as", {"self", "other"}},
    {"round", {"self", "decimals"}},
    {"true_divide", {"self", "other"}},
    {"subtract", {"self", "other", "alpha"}},
    {"multiply", {"self", "other"}},
    {"divide", {"self", "other"}},
};

constexpr std::pair<std::string_view, std::string_view> kUnary[] = {
    {"reciprocal", "reciprocal"},
    {"rsqrt", "rsqrt"},
    {"sin", "sin"},
    {"cos", "cos"},
    {"tan", "tan"},
    {"asin", "asin"},
    {"acos", "acos"},
    {"atan", "atan"},
    {"sinh", "sinh"},
    {"cosh", "cosh"},
    {"asinh", "asinh"},
    {"acosh", "acosh"},
    {"atanh", "atanh"},
    {"erfc", "erfc"},
    {"exp2", "exp2"},
    {"expm1", "expm1"},
    {"log1p", "log1p"},
    {"log2", "log2"},
    {"log10", "log10"},
    {"floor", "floor"},
    {"ceil", "ceil"},
    {"sign", "sign"},
    {"mish", "mish"},
    {"softsign", "softsign"},
    {"logical_not", "not"},
    {"isnan", "is_nan"},
    {"isinf", "is_inf"},
    {"log_sigmoid", "log_sigmoid"},
};
constexpr AtenSignature kOne{"", {"self"}};

ValueId truth(GraphBuilder& b, const std::string& name, ValueId x) {
  return aten_cast(b, name, x, DType::boolean);
}

// The second operand of a call: a tensor, or a number as a constant.
ValueId operand(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c,
                std::string_view key) {
  if (const ValueId y = c.tensor(key); y != kAbsent) return y;
  const AtenValue* v = c.find(key);
  if (v == nullptr) throw AtenUnknown{"a call without " + std::string(key)};
  return aten_number(b, name, x, *v);
}

ValueId paired(GraphBuilder& b, std::string_view op, const std::string& name, ValueId x, ValueId y,
               const Fields& f = {}) {
  const auto [p, q] = promoted(b, name, x, y);
  return b.op(op, name, {p, q}, f);
}

AtenOutputs compared(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                     const AtenCall& c) {
  constexpr std::pair<std::string_view, std::string_view> kOps[] = {
      {"eq", "equal"},         {"ne", "equal"},   {"lt", "less"},
      {"le", "less_or_equal"}, {"gt", "greater"}, {"ge", "greater_or_equal"}};
  for (const auto& [theirs, ours] : kOps)
    if (op == theirs) {
      const ValueId y = operand(b, name + ".other", x, c, "other");
      if (op == "ne") return {{b.op("not", name, {paired(b, ours, name + ".equal", x, y)})}};
      return {{paired(b, ours, name, x, y)}};
    }
  return std::nullopt;
}

AtenOutputs elementwise(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                        const AtenCall& c) {
  for (const auto& [theirs, ours] : kUnary)
    if (op == theirs) return {{b.op(ours, name, {op == "logical_not" ? truth(b, name, x) : x})}};
  if (auto v = compared(b, op, name, x, c)) return v;
  const auto other = [&](std::string_view key = "other") {
    return operand(b, name + "." + std::string(key), x, c, key);
  };
  if (op == "pow") {
    const AtenValue* e = c.find("exponent");
    if (e != nullptr && e->kind != Kind::tensor && c.number("exponent", 0) == 2)
      return {{b.op("mul", name, {x, x})}};
    return {{paired(b, "pow", name, x, other("exponent"))}};
  }
  if (op == "square") return {{b.op("mul", name, {x, x})}};
  if (op == "rsub") {
    if (c.number("alpha", 1) != 1) throw AtenUnknown{"rsub with a factor"};
    return {{paired(b, "sub", name, other(), x)}};
  }
  if (op == "maximum" || op == "minimum")
    return {{paired(b, op == "maximum" ? "max" : "min", name, x, other())}};
  if (op == "floor_divide") {
    const ValueId y = paired(b, "div", name, x, other());
    if (!is_floating(b.dtype(y)))
      b.note("a quotient of integers is cut toward zero here, Python's floors.");
    return {{is_floating(b.dtype(y)) ? b.op("floor", name + ".floor", {y}) : y}};
  }
  if (op == "remainder" || op == "fmod")
    return {{paired(b, "mod", name, x, other(), {{"fmod", op == "fmod"}})}};
  if (op.starts_with("logical_") || op.starts_with("bitwise_") || op.starts_with("__")) {
    const bool logic = op.starts_with("logical_") || b.dtype(x) == DType::boolean;
    const std::string kind = op.find("and") != op.npos   ? "and"
                             : op.find("xor") != op.npos ? "xor"
                             : op.find("not") != op.npos ? "not"
                                                         : "or";
    const std::string ours = logic ? kind : "bitwise_" + kind;
    if (kind == "not") return {{b.op(ours, name, {x})}};
    if (logic) return {{b.op(ours, name, {truth(b, name, x), truth(b, name, other())})}};
    return {{paired(b, ours, name, x, other())}};
  }
  if (op == "masked_fill") {
    const auto [value, kept] = promoted(b, name, operand(b, name + ".value", x, c, "value"), x);
    return {{b.op("where", name, {truth(b, name, c.tensor("mask")), value, kept})}};
  }
  if (op == "clamp" || op == "clamp_min" || op == "clamp_max") {
    if (c.tensor("min") != kAbsent || c.tensor("max") != kAbsent) {
      if (c.find("min") != nullptr) x = paired(b, "max", name + ".low", x, other("min"));
      if (c.find("max") != nullptr) x = paired(b, "min", name + ".high", x, other("max"));
      return {{x}};
    }
    constexpr float kInf = std::numeric_limits<float>::infinity();
    return {{b.op("clip", name, {x},
                  {{"min", c.number("min", -kInf)}, {"max", c.number("max", kInf)}})}};
  }
  if (op == "threshold") {
    if (c.number("value", 0) != 0) throw AtenUnknown{"a threshold with another value than 0"};
    return {{b.op("thresholded_relu", name, {x}, {{"alpha", c.number("threshold", 0)}})}};
  }
  if (op == "celu") return {{b.op(op, name, {x}, {{"alpha", c.number("alpha", 1)}})}};
  if (op == "selu") return {{b.op(op, name, {x})}};
  if (op == "hardshrink")
    return {{b.op("shrink", name, {x}, {{"lambd", c.number("lambd", 0.5F)}})}};
  if (op == "softshrink") return {{b.op(op, name, {x}, {{"lambd", c.number("lambd", 0.5F)}})}};
  if (op == "rrelu") {
    if (c.flag("training", false)) throw AtenUnknown{"rrelu in training"};
    return {{b.op("leaky_relu", name, {x},
                  {{"alpha", (c.number("lower", 0.125F) + c.number("upper", 1.0F / 3)) / 2}})}};
  }
  if (op == "glu") {
    const std::int64_t axis = aten_axis(b, x, c.integer("dim", -1));
    const auto halves = b.nodes(
        "split", name + ".halves", {x},
        make_params(get_op("split"), {{"axis", axis}, {"num_outputs", std::int64_t{2}}}), 2);
    return {{b.op("mul", name, {halves[0], b.op("sigmoid", name + ".gate", {halves[1]})})}};
  }
  if (op == "addcmul" || op == "addcdiv") {
    ValueId y = paired(b, op == "addcmul" ? "mul" : "div", name + ".term", c.tensor("tensor1"),
                       c.tensor("tensor2"));
    if (const AtenValue* v = c.find("value"); v != nullptr && c.number("value", 1) != 1)
      y = b.op("mul", name + ".scaled", {y, aten_number(b, name + ".value", y, *v)});
    return {{paired(b, "add", name, x, y)}};
  }
  if (op == "lerp") {
    const ValueId d = paired(b, "sub", name + ".way", c.tensor("end"), x);
    return {{b.op("add", name, {x, b.op("mul", name + ".part", {d, other("weight")})})}};
  }
  if (op == "round") {
    if (c.integer("decimals", 0) != 0) throw AtenUnknown{"round to decimals"};
    return {{b.op("round", name, {x})}};
  }
  if (op == "to" || op == "_to_copy" || op == "type_as") {
    if (const ValueId like = c.tensor("other"); like != kAbsent)
      return {{aten_cast(b, name, x, b.dtype(like))}};
    for (const char* key : {"dtype", "other"}) {
      const AtenValue* v = c.find(key);
      if (v != nullptr && v->kind == Kind::tensor)
        return {{aten_cast(b, name, x, b.dtype(v->tensor))}};
      if (v != nullptr && v->kind == Kind::integer)
        return {{aten_cast(b, name, x, aten_dtype(v->integer))}};
    }
    return {{x}};
  }
  return std::nullopt;
}

// The mean, and the mean square distance to it over n - correction elements.
std::pair<ValueId, ValueId> moments(GraphBuilder& b, const std::string& name, ValueId x,
                                    const AtenCall& c) {
  const Ints axes = aten_axes(b, x, c);
  const bool keep = c.flag("keepdim", false);
  const AtenValue* by = c.find("correction");
  const double less = by != nullptr ? static_cast<double>(c.number("correction", 1))
                                    : (c.flag("unbiased", true) ? 1 : 0);
  std::int64_t n = 1;
  for (const std::int64_t a : axes) {
    const std::int64_t d = b.dims(x)[static_cast<std::size_t>(a)];
    if (d < 0) throw AtenUnknown{"a variance over a free extent"};
    n *= d;
  }
  const ValueId mean =
      b.op("reduce_mean", name + ".mean", {x}, {{"axes", axes}, {"keepdims", true}});
  const ValueId d = b.op("sub", name + ".centred", {x, mean});
  const ValueId sum =
      b.op("reduce_sum_square", name + ".squares", {d}, {{"axes", axes}, {"keepdims", keep}});
  const ValueId over = b.constant(
      name + ".count", scalar_of(b.dtype(x), std::max(static_cast<double>(n) - less, 0.0)));
  b.note("a variance is written step by step, each rounds.");
  const ValueId m = keep ? mean : b.op("squeeze", name + ".plain", {mean}, {{"axes", axes}});
  return {b.op("div", name, {sum, over}), m};
}

AtenOutputs reduced(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                    const AtenCall& c) {
  const bool keep = c.flag("keepdim", false);
  const auto over = [&](std::string_view ours, ValueId v) {
    return b.op(ours, name, {v}, {{"axes", aten_axes(b, v, c)}, {"keepdims", keep}});
  };
  if (op == "amax" || op == "amin") return {{over(op == "amax" ? "reduce_max" : "reduce_min", x)}};
  if (op == "logsumexp") return {{over("reduce_log_sum_exp", x)}};
  if (op == "prod") return {{over("reduce_prod", x)}};
  if (op == "any" || op == "all")
    return {{over(op == "any" ? "reduce_max" : "reduce_min", truth(b, name, x))}};
  if (op == "max" || op == "min") {
    const AtenValue* dim = c.find("dim");
    ValueId y = c.tensor("other");
    if (y == kAbsent && dim != nullptr && dim->kind == Kind::tensor) y = dim->tensor;
    if (y != kAbsent) return {{paired(b, op, name, x, y)}};
    const ValueId most = over(op == "max" ? "reduce_max" : "reduce_min", x);
    if (dim == nullptr) return {{most}};
    return {{most, b.op(op == "max" ? "arg_max" : "arg_min", name + ".index", {x},
                        {{"axis", aten_axis(b, x, c.integer("dim", 0))}, {"keepdims", keep}})}};
  }
  if (op == "argmax" || op == "argmin") {
    if (c.find("dim") == nullptr) throw AtenUnknown{op + " of a flattened tensor"};
    return {{b.op(op == "argmax" ? "arg_max" : "arg_min", name, {x},
                  {{"axis", aten_axis(b, x, c.integer("dim", 0))}, {"keepdims", keep}})}};
  }
  if (op == "topk")
    return b.nodes("top_k", name, {x},
                   make_params(get_op("top_k"), {{"axis", aten_axis(b, x, c.integer("dim", -1))},
                                                 {"k", c.integer("k", 1)},
                                                 {"largest", c.flag("largest", true)}}),
                   2);
  if (op == "cumsum") {
    if (!is_floating(b.dtype(x))) x = aten_cast(b, name, x, DType::i64);
    return {{b.op("cum_sum", name, {x}, {{"axis", aten_axis(b, x, c.integer("dim", 0))}})}};
  }
  if (op == "var") return {{moments(b, name, x, c).first}};
  if (op == "std") return {{b.op("sqrt", name + ".root", {moments(b, name, x, c).first})}};
  if (op == "var_mean") {
    const auto [v, m] = moments(b, name, x, c);
    return {{v, m}};
  }
  if (op == "norm" || op == "linalg_vector_norm" || op == "frobenius_norm") {
    const float p = op == "frobenius_norm" ? 2.0F : c.number(op == "norm" ? "p" : "ord", 2);
    if (p == 1) return {{over("reduce_l1", x)}};
    if (p == 2) return {{over("reduce_l2", x)}};
    if (std::isinf(p) && p > 0) return {{over("reduce_max", b.op("abs", name + ".abs", {x}))}};
    throw AtenUnknown{fmt::format("a norm of order {}", p)};
  }
  return std::nullopt;
}

}  // namespace

std::span<const AtenSignature> math_signatures() {
  static const std::vector<AtenSignature> kAll = [] {
    std::vector<AtenSignature> all(std::begin(kSignatures), std::end(kSignatures));
    for (const auto& [theirs, ours] : kUnary) {
      const bool known =
          std::ranges::any_of(kSignatures, [&](const auto& s) { return s.op == theirs; });
      if (!known) all.push_back({theirs, kOne.arguments});
    }
    return all;
  }();
  return kAll;
}

AtenOutputs translate_math(GraphBuilder& b, const std::string& called, const std::string& name,
                           const AtenCall& c) {
  const bool ours =
      std::ranges::any_of(math_signatures(), [&](const auto& s) { return s.op == called; });
  if (!ours) return std::nullopt;
  const std::string op = called;
  if (op == "where") {
    if (c.find("self") == nullptr) throw AtenUnknown{"where without values"};
    const ValueId condition = c.tensor("condition");
    ValueId x = c.tensor("self"), y = c.tensor("other");
    if (condition == kAbsent || (x == kAbsent && y == kAbsent))
      throw AtenUnknown{"where of two numbers"};
    if (x == kAbsent) x = aten_number(b, name + ".self", y, *c.find("self"));
    if (y == kAbsent) y = operand(b, name + ".other", x, c, "other");
    const auto [p, q] = promoted(b, name, x, y);
    return {{b.op("where", name, {truth(b, name, condition), p, q})}};
  }
  if (op == "pow" && c.tensor("self") == kAbsent && c.tensor("exponent") != kAbsent) {
    const ValueId e = c.tensor("exponent");
    const AtenValue* base = c.find("self");
    if (base == nullptr) throw AtenUnknown{"a power of nothing"};
    return {{paired(b, "pow", name, aten_number(b, name + ".base", e, *base), e)}};
  }
  const ValueId x = first_tensor(c, op);
  if (auto v = elementwise(b, op, name, x, c)) return v;
  return reduced(b, op, name, x, c);
}

DType aten_dtype(std::int64_t number) {
  constexpr std::pair<std::int64_t, DType> kTypes[] = {
      {0, DType::u8},  {1, DType::i8},  {2, DType::i16},      {3, DType::i32}, {4, DType::i64},
      {5, DType::f16}, {6, DType::f32}, {11, DType::boolean}, {7, DType::f64}, {15, DType::bf16}};
  for (const auto& [n, dtype] : kTypes)
    if (n == number) return dtype;
  throw AtenUnknown{fmt::format("the element type {}", number)};
}

ValueId aten_cast(GraphBuilder& b, const std::string& name, ValueId x, DType to) {
  if (b.dtype(x) == to) return x;
  return b.op("cast", name + ".cast", {x}, {{"to", std::string(etalon::name(to))}});
}

ValueId aten_number(GraphBuilder& b, const std::string& name, ValueId x, const AtenValue& v) {
  if (v.kind == Kind::number) {
    const DType type = is_floating(b.dtype(x)) ? b.dtype(x) : DType::f32;
    return b.constant(name, scalar_of(type, v.number));
  }
  if ((v.kind != Kind::integer && v.kind != Kind::boolean) || v.free)
    throw AtenUnknown{"an operand that is no known number"};
  const DType type =
      b.dtype(x) == DType::boolean && v.kind == Kind::integer ? DType::i64 : b.dtype(x);
  return b.constant(name, scalar_of(type, static_cast<double>(v.integer)));
}

// A tensor without axes takes the type of the other one's kind; of two types the wider stays,
// floating over integers over truth.
std::pair<ValueId, ValueId> promoted(GraphBuilder& b, const std::string& name, ValueId x,
                                     ValueId y) {
  const DType p = b.dtype(x), q = b.dtype(y);
  if (p == q) return {x, y};
  const auto level = [](DType d) { return d == DType::boolean ? 0 : is_floating(d) ? 2 : 1; };
  const bool p_weak = b.rank(x) == 0 && b.rank(y) > 0, q_weak = b.rank(y) == 0 && b.rank(x) > 0;
  DType to;
  if (level(p) != level(q))
    to = level(p) > level(q) ? p : q;
  else if (p_weak != q_weak)
    to = p_weak ? q : p;
  else if (level(p) == 1)
    to = size_bytes(p) == size_bytes(q) ? DType::i64 : size_bytes(p) > size_bytes(q) ? p : q;
  else
    to = size_bytes(p) == size_bytes(q) ? DType::f32 : size_bytes(p) > size_bytes(q) ? p : q;
  return {aten_cast(b, name + ".left", x, to), aten_cast(b, name + ".right", y, to)};
}

}  // namespace etalon::pytorch_format
