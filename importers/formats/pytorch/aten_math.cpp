// Arithmetic, comparisons, logic, conversions of type.
//
// A quotient that floors, of integers: the quotient that is cut toward zero, less one where the
// remainders of both kinds differ. Of floating numbers, as PyTorch's div_floor: fmod is exact, the
// quotient of what it leaves is whole but for its last rounding, and is put on the nearest whole
// number below or at it.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/formats/integer_quotient.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

// Calls of one operand that are an op of ours.
struct Unary {
  std::string_view theirs, ours;
};
constexpr Unary kUnary[] = {
    {"exp", "exp"},
    {"log", "log"},
    {"sqrt", "sqrt"},
    {"abs", "abs"},
    {"neg", "neg"},
    {"erf", "erf"},
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
    {"sgn", "sign"},
    {"exp2", "exp2"},
    {"expm1", "expm1"},
    {"log1p", "log1p"},
    {"log2", "log2"},
    {"log10", "log10"},
    {"floor", "floor"},
    {"ceil", "ceil"},
    {"sign", "sign"},
    {"isnan", "is_nan"},
    {"isinf", "is_inf"},
    {"absolute", "abs"},
    {"negative", "neg"},
    {"arctan", "atan"},
    {"arcsin", "asin"},
    {"arccos", "acos"},
    {"special_erf", "erf"},
    {"special_expm1", "expm1"},
    {"special_log1p", "log1p"},
    {"special_exp2", "exp2"},
};

constexpr AtenSignature kOthers[] = {
    {"add", {"self", "other", "alpha"}},
    {"sub", {"self", "other", "alpha"}},
    {"subtract", {"self", "other", "alpha"}},
    {"rsub", {"self", "other", "alpha"}},
    {"mul", {"self", "other"}},
    {"multiply", {"self", "other"}},
    {"div", {"self", "other", "rounding_mode"}},
    {"divide", {"self", "other", "rounding_mode"}},
    {"true_divide", {"self", "other"}},
    {"floor_divide", {"self", "other"}},
    {"remainder", {"self", "other"}},
    {"fmod", {"self", "other"}},
    {"pow", {"self", "exponent"}},
    {"square", {"self"}},
    {"maximum", {"self", "other"}},
    {"minimum", {"self", "other"}},
    {"clamp", {"self", "min", "max"}},
    {"clamp_min", {"self", "min"}},
    {"clamp_max", {"self", "max"}},
    {"addcmul", {"self", "tensor1", "tensor2", "value"}},
    {"addcdiv", {"self", "tensor1", "tensor2", "value"}},
    {"clip", {"self", "min", "max"}},
    {"greater", {"self", "other"}},
    {"greater_equal", {"self", "other"}},
    {"less", {"self", "other"}},
    {"less_equal", {"self", "other"}},
    {"not_equal", {"self", "other"}},
    {"lerp", {"self", "end", "weight"}},
    {"round", {"self", "decimals"}},
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
    {"bitwise_xor", {"self", "other"}},
    {"bitwise_not", {"self"}},
    {"__and__", {"self", "other"}},
    {"__or__", {"self", "other"}},
    {"__xor__", {"self", "other"}},
    {"trunc", {"self"}},
    {"frac", {"self"}},
    {"sinc", {"self"}},
    {"isfinite", {"self"}},
    {"where", {"condition", "self", "other"}},
    {"masked_fill", {"self", "mask", "value"}},
    {"to", {"self", "dtype", "other", "non_blocking", "copy", "memory_format"}},
    {"_to_copy", {"self", "dtype"}},
    {"type_as", {"self", "other"}},
    {"float", {"self"}},
    {"requires_grad", {"self", "requires_grad"}},
};

std::span<const AtenSignature> signatures() {
  static const std::vector<AtenSignature> kAll = [] {
    std::vector<AtenSignature> all(std::begin(kOthers), std::end(kOthers));
    for (const Unary& u : kUnary) all.push_back({u.theirs, {"self"}});
    return all;
  }();
  return kAll;
}

ValueId truth(GraphBuilder& b, const std::string& name, ValueId x) {
  return aten_cast(b, name, x, DType::boolean);
}

// The quotient of floating numbers, floored, as PyTorch computes it.
ValueId floored(GraphBuilder& b, const std::string& name, ValueId x, ValueId y) {
  const auto op = [&](std::string_view what, const char* role, const std::vector<ValueId>& in,
                      const Fields& f = {}) { return b.op(what, name + "." + role, in, f); };
  const auto number = [&](const char* role, double v) {
    return b.constant(name + "." + role, scalar_of(b.dtype(x), v));
  };
  const ValueId zero = number("zero", 0), one = number("one", 1);
  const ValueId left = op("mod", "left", {x, y}, {{"fmod", true}});
  const ValueId whole = op("div", "whole", {op("sub", "rest", {x, left}), y});
  const ValueId signs = op(
      "xor", "signs", {op("less", "y_below", {y, zero}), op("less", "left_below", {left, zero})});
  const ValueId uneven = op("not", "uneven", {op("equal", "even", {left, zero})});
  const ValueId under =
      op("where", "under",
         {op("and", "differ", {uneven, signs}), op("sub", "one_less", {whole, one}), whole});
  const ValueId down = op("floor", "down", {under});
  const ValueId off = op("greater", "off", {op("sub", "by", {under, down}), number("half", 0.5)});
  const ValueId near = op("where", "near", {off, op("add", "one_more", {down, one}), down});
  // A zero has the sign of the quotient; what is divided by zero is that quotient.
  const ValueId quotient = op("div", "quotient", {x, y});
  const ValueId signed_zero = op("mul", "signed_zero", {quotient, zero});
  const ValueId kept = op("where", "kept", {op("equal", "none", {under, zero}), signed_zero, near});
  return op("where", "floored", {op("equal", "by_zero", {y, zero}), quotient, kept});
}

ValueId cut_to_zero(GraphBuilder& b, const std::string& name, ValueId x) {
  const ValueId zero = b.constant(name + ".zero", scalar_of(b.dtype(x), 0));
  return b.op("where", name + ".cut",
              {b.op("less", name + ".below", {x, zero}), b.op("ceil", name + ".up", {x}),
               b.op("floor", name + ".down", {x})});
}

ValueId divided(GraphBuilder& b, const std::string& name, ValueId x, ValueId y,
                const std::string& rounding) {
  auto [left, right] = promoted(b, name, x, y);
  const bool floating = is_floating(b.dtype(left));
  if (rounding.empty()) {
    if (!floating) {
      left = aten_cast(b, name + ".dividend", left, DType::f32);
      right = aten_cast(b, name + ".divisor", right, DType::f32);
    }
    return b.op("div", name, {left, right});
  }
  if (b.dtype(left) == DType::boolean) throw AtenUnknown{"a whole quotient of truth values"};
  if (rounding == "floor")
    return floating ? floored(b, name, left, right) : floor_quotient(b, name, left, right);
  if (rounding != "trunc") throw AtenUnknown{"a quotient that is rounded by " + rounding};
  const ValueId q = b.op("div", name, {left, right});
  if (!floating) return q;
  return cut_to_zero(b, name, q);
}

// Functions of one operand that are several ops; empty where op is none of them.
AtenOutputs composed(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x) {
  const bool floating = is_floating(b.dtype(x));
  const auto number = [&](const char* role, double v) {
    return b.constant(name + role, scalar_of(b.dtype(x), v));
  };
  if (op == "trunc") return {floating ? cut_to_zero(b, name, x) : x};
  if (op == "isfinite" || op == "frac" || op == "sinc") {
    if (!floating) throw AtenUnknown{op + " of whole numbers"};
    if (op == "frac") return {b.op("sub", name, {x, cut_to_zero(b, name, x)})};
    if (op == "isfinite")
      return {
          b.op("not", name,
               {b.op("or", name + ".none",
                     {b.op("is_nan", name + ".nan", {x}), b.op("is_inf", name + ".inf", {x})})})};
    constexpr double kPi = 3.14159265358979323846;
    const ValueId turns = b.op("mul", name + ".turns", {x, number(".pi", kPi)});
    return {b.op("where", name,
                 {b.op("equal", name + ".at_zero", {x, number(".zero", 0)}), number(".one", 1),
                  b.op("div", name + ".ratio", {b.op("sin", name + ".sine", {turns}), turns})})};
  }
  return {};
}

ValueId arithmetic(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                   const AtenCall& c) {
  ValueId other = aten_operand(b, name + ".other", x, c, "other");
  if (op == "div") {
    const AtenValue* mode = c.find("rounding_mode");
    return divided(b, name, x, other, mode == nullptr ? "" : mode->text);
  }
  if (const AtenValue* alpha = c.find("alpha"); alpha != nullptr && c.real("alpha", 1) != 1) {
    ValueId& by = op == "rsub" ? x : other;
    by = b.op("mul", name + ".scaled", {by, aten_number(b, name + ".alpha", by, *alpha)});
  }
  if (op == "rsub") return paired(b, "sub", name, other, x);
  return paired(b, op, name, x, other);
}

AtenOutputs compared(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                     const AtenCall& c) {
  constexpr std::pair<std::string_view, std::string_view> kOps[] = {
      {"eq", "equal"},         {"ne", "equal"},   {"lt", "less"},
      {"le", "less_or_equal"}, {"gt", "greater"}, {"ge", "greater_or_equal"}};
  for (const auto& [theirs, ours] : kOps)
    if (op == theirs) {
      const ValueId y = aten_operand(b, name + ".other", x, c, "other");
      if (op == "ne") return {b.op("not", name, {paired(b, ours, name + ".equal", x, y)})};
      return {paired(b, ours, name, x, y)};
    }
  return {};
}

ValueId clamped(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const bool tensors = c.tensor("min") != kAbsent || c.tensor("max") != kAbsent;
  const auto whole = [&](const char* key) {
    const AtenValue* v = c.find(key);
    return v == nullptr || v->kind != Kind::number;
  };
  // A bound with a fraction makes whole numbers floating.
  if (tensors || !is_floating(b.dtype(x))) {
    const bool exact = whole("min") && whole("max");
    if (!exact && !is_floating(b.dtype(x))) x = aten_cast(b, name, x, DType::f32);
    for (const auto& [key, op] : {std::pair{"min", "max"}, std::pair{"max", "min"}})
      if (c.find(key) != nullptr)
        x = paired(b, op, name + "." + key, x, aten_operand(b, name + ".bound", x, c, key));
    return x;
  }
  constexpr float kInf = std::numeric_limits<float>::infinity();
  return b.op("clip", name, {x}, {{"min", c.number("min", -kInf)}, {"max", c.number("max", kInf)}});
}

ValueId chosen(GraphBuilder& b, const std::string& name, const AtenCall& c) {
  if (c.find("self") == nullptr) throw AtenUnknown{"where without values"};
  const ValueId condition = c.tensor("condition");
  ValueId x = c.tensor("self"), y = c.tensor("other");
  if (condition == kAbsent || (x == kAbsent && y == kAbsent))
    throw AtenUnknown{"where of two numbers"};
  if (x == kAbsent) x = aten_number(b, name + ".self", y, *c.find("self"));
  if (y == kAbsent) y = aten_operand(b, name + ".other", x, c, "other");
  const auto [p, q] = promoted(b, name, x, y);
  return b.op("where", name, {truth(b, name, condition), p, q});
}

ValueId logical(GraphBuilder& b, const std::string& op, const std::string& name, ValueId x,
                const AtenCall& c) {
  const bool logic = op.starts_with("logical_") || b.dtype(x) == DType::boolean;
  const std::string kind = op.find("and") != op.npos   ? "and"
                           : op.find("xor") != op.npos ? "xor"
                           : op.find("not") != op.npos ? "not"
                                                       : "or";
  const std::string ours = logic ? kind : "bitwise_" + kind;
  if (kind == "not") return b.op(ours, name, {logic ? truth(b, name, x) : x});
  const ValueId other = aten_operand(b, name + ".other", x, c, "other");
  // Truth and numbers together are numbers in bitwise calls.
  if (!op.starts_with("logical_") && logic && b.dtype(other) != DType::boolean)
    return paired(b, "bitwise_" + kind, name, x, other);
  if (logic) return b.op(ours, name, {truth(b, name, x), truth(b, name, other)});
  return paired(b, ours, name, x, other);
}

ValueId converted(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* types[] = {c.find("dtype"), c.find("other")};
  for (const AtenValue* v : types) {
    if (v != nullptr && v->kind == Kind::tensor) return aten_cast(b, name, x, b.dtype(v->tensor));
    if (v != nullptr && v->kind == Kind::integer)
      return aten_cast(b, name, x, aten_dtype(v->integer));
  }
  return x;
}

AtenOutputs translate(GraphBuilder& b, const std::string& called, const std::string& name,
                      const AtenCall& c) {
  const std::string op = called == "true_divide" || called == "divide" ? "div"
                         : called == "multiply"                        ? "mul"
                         : called == "subtract"                        ? "sub"
                         : called == "clip"                            ? "clamp"
                         : called == "greater"                         ? "gt"
                         : called == "greater_equal"                   ? "ge"
                         : called == "less"                            ? "lt"
                         : called == "less_equal"                      ? "le"
                         : called == "not_equal"                       ? "ne"
                                                                       : called;
  if (op == "where") return {chosen(b, name, c)};
  if (op == "pow" && c.tensor("self") == kAbsent && c.tensor("exponent") != kAbsent) {
    const ValueId e = c.tensor("exponent");
    const AtenValue* base = c.find("self");
    if (base == nullptr) throw AtenUnknown{"a power of nothing"};
    return {paired(b, "pow", name, aten_number(b, name + ".base", e, *base), e)};
  }
  const ValueId x = first_tensor(c, op);
  for (const auto& [theirs, ours] : kUnary)
    if (op == theirs) {
      // Of whole numbers these are of a kind; every other function makes them floating.
      constexpr std::string_view kKept[] = {"abs", "neg", "sign", "floor", "ceil"};
      if (is_floating(b.dtype(x)) || std::ranges::find(kKept, ours) != std::end(kKept)) {
        const bool whole = !is_floating(b.dtype(x)) && (ours == "floor" || ours == "ceil");
        return {whole ? x : b.op(ours, name, {x})};
      }
      if (ours.starts_with("is_"))
        return {b.op("not", name, {b.op("equal", name + ".itself", {x, x})})};
      return {b.op(ours, name, {aten_cast(b, name, x, DType::f32)})};
    }
  if (AtenOutputs made = compared(b, op, name, x, c); !made.empty()) return made;
  if (AtenOutputs made = composed(b, op, name, x); !made.empty()) return made;
  const auto other = [&](std::string_view key = "other") {
    return aten_operand(b, name + "." + std::string(key), x, c, key);
  };
  for (const char* plain : {"add", "sub", "rsub", "mul", "div"})
    if (op == plain) return {arithmetic(b, op, name, x, c)};
  if (op == "floor_divide") return {divided(b, name, x, other(), "floor")};
  if (op == "remainder" || op == "fmod")
    return {paired(b, "mod", name, x, other(), {{"fmod", op == "fmod"}})};
  if (op == "pow") {
    const AtenValue* e = c.find("exponent");
    if (e != nullptr && e->kind != Kind::tensor && c.number("exponent", 0) == 2)
      return {b.op("mul", name, {x, x})};
    return {paired(b, "pow", name, x, other("exponent"))};
  }
  if (op == "square") return {b.op("mul", name, {x, x})};
  if (op == "maximum" || op == "minimum")
    return {paired(b, op == "maximum" ? "max" : "min", name, x, other())};
  if (op.starts_with("clamp")) return {clamped(b, name, x, c)};
  if (op.starts_with("logical_") || op.starts_with("bitwise_") || op.starts_with("__"))
    return {logical(b, op, name, x, c)};
  if (op == "masked_fill") {
    const ValueId mask = c.tensor("mask");
    if (mask == kAbsent) throw AtenUnknown{"masked_fill without a mask"};
    const auto [value, kept] = promoted(b, name, other("value"), x);
    return {b.op("where", name, {truth(b, name, mask), value, kept})};
  }
  if (op == "addcmul" || op == "addcdiv") {
    const ValueId one = c.tensor("tensor1"), two = c.tensor("tensor2");
    if (one == kAbsent || two == kAbsent) throw AtenUnknown{op + " of what are no tensors"};
    ValueId y = paired(b, op == "addcmul" ? "mul" : "div", name + ".term", one, two);
    if (const AtenValue* v = c.find("value"); v != nullptr && c.real("value", 1) != 1)
      y = b.op("mul", name + ".scaled", {y, aten_number(b, name + ".value", y, *v)});
    return {paired(b, "add", name, x, y)};
  }
  if (op == "lerp") {
    if (c.tensor("end") == kAbsent) throw AtenUnknown{"lerp to what is no tensor"};
    const ValueId d = paired(b, "sub", name + ".way", c.tensor("end"), x);
    return {b.op("add", name, {x, b.op("mul", name + ".part", {d, other("weight")})})};
  }
  if (op == "round") {
    if (c.integer("decimals", 0) != 0) throw AtenUnknown{"round to decimals"};
    return {b.op("round", name, {x})};
  }
  if (op == "requires_grad") {
    c.flag("requires_grad", true);
    return {x};
  }
  if (op == "float") return {aten_cast(b, name, x, DType::f32)};
  return {converted(b, name, x, c)};  // to, _to_copy, type_as
}

}  // namespace

AtenFamily math_family() { return {signatures(), translate}; }

ValueId aten_operand(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c,
                     std::string_view key) {
  if (const ValueId y = c.tensor(key); y != kAbsent) return y;
  const AtenValue* v = c.find(key);
  if (v == nullptr) throw AtenUnknown{"a call without " + std::string(key)};
  return aten_number(b, name, x, *v);
}

ValueId paired(GraphBuilder& b, std::string_view op, const std::string& name, ValueId x, ValueId y,
               const Fields& f) {
  const auto [p, q] = promoted(b, name, x, y);
  return b.op(op, name, {p, q}, f);
}

namespace {
constexpr std::pair<std::int64_t, DType> kTypes[] = {
    {0, DType::u8},  {1, DType::i8},  {2, DType::i16},      {3, DType::i32}, {4, DType::i64},
    {5, DType::f16}, {6, DType::f32}, {11, DType::boolean}, {7, DType::f64}, {15, DType::bf16}};
}

std::int64_t aten_number_of(DType dtype) {
  for (const auto& [n, d] : kTypes)
    if (d == dtype) return n;
  throw AtenUnknown{"an element type that PyTorch lacks"};
}

ValueId cast_as_told(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  const AtenValue* type = c.find("dtype");
  return type == nullptr || type->kind != Kind::integer
             ? x
             : aten_cast(b, name, x, aten_dtype(type->integer));
}

DType aten_dtype(std::int64_t number) {
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
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (v.integer > kExact || v.integer < -kExact)
    throw AtenUnknown{fmt::format("the number {}, which f64 may not hold", v.integer)};
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
