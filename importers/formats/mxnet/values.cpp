// Operators that compute each element alone. Source: MXNet's mshadow_op.h.
#include <cmath>

#include "importers/containers/bytes.h"
#include "importers/formats/mxnet/operators.h"
#include "importers/formats/scalar.h"

namespace etalon::mxnet {
namespace {

struct Names {
  std::string_view theirs, ours;
};
constexpr Names kUnary[] = {{"relu", "relu"},
                            {"sigmoid", "sigmoid"},
                            {"tanh", "tanh"},
                            {"exp", "exp"},
                            {"log", "log"},
                            {"sqrt", "sqrt"},
                            {"rsqrt", "rsqrt"},
                            {"abs", "abs"},
                            {"negative", "neg"},
                            {"floor", "floor"},
                            {"ceil", "ceil"},
                            {"softsign", "softsign"},
                            {"erf", "erf"},
                            {"reciprocal", "reciprocal"},
                            {"sin", "sin"},
                            {"cos", "cos"},
                            {"tan", "tan"},
                            {"arcsin", "asin"},
                            {"arccos", "acos"},
                            {"arctan", "atan"},
                            {"sinh", "sinh"},
                            {"cosh", "cosh"},
                            {"arcsinh", "asinh"},
                            {"arccosh", "acosh"},
                            {"arctanh", "atanh"},
                            {"log2", "log2"},
                            {"log10", "log10"},
                            {"log1p", "log1p"},
                            {"expm1", "expm1"},
                            {"cbrt", "cbrt"},
                            {"sign", "sign"},
                            {"log_sigmoid", "log_sigmoid"},
                            {"mish", "mish"},
                            {"identity", "identity"},
                            {"_copy", "identity"},
                            {"BlockGrad", "identity"},
                            {"cast_storage", "identity"},
                            {"_CrossDeviceCopy", "identity"},
                            {"_identity_with_attr_like_rhs", "identity"},
                            {"_contrib_gradientmultiplier", "identity"},
                            {"stop_gradient", "identity"},
                            {"MakeLoss", "identity"},
                            {"make_loss", "identity"},
                            {"LinearRegressionOutput", "identity"},
                            {"MAERegressionOutput", "identity"},
                            {"SVMOutput", "identity"},
                            {"IdentityAttachKLSparseReg", "identity"},
                            {"LogisticRegressionOutput", "sigmoid"},
                            {"Dropout", "identity"}};

// Two operands: the name begins as an operator of tensors does, or stands before "_scalar".
constexpr Names kBinary[] = {{"add", "add"},
                             {"plus", "add"},
                             {"sub", "sub"},
                             {"minus", "sub"},
                             {"mul", "mul"},
                             {"div", "div"},
                             {"maximum", "max"},
                             {"minimum", "min"},
                             {"power", "pow"},
                             {"mod", "mod"},
                             {"hypot", "hypot"},
                             {"equal", "equal"},
                             {"not_equal", "not_equal"},
                             {"greater", "greater"},
                             {"greater_equal", "greater_or_equal"},
                             {"lesser", "less"},
                             {"lesser_equal", "less_or_equal"},
                             {"logical_and", "and"},
                             {"logical_or", "or"},
                             {"logical_xor", "xor"}};

std::string_view find(std::span<const Names> list, std::string_view name) {
  for (const Names& n : list)
    if (n.theirs == name) return n.ours;
  return {};
}

ValueId binary(const Parts& p, std::string_view op, ValueId a, ValueId b) {
  const auto last = [&](std::string_view name, const std::vector<ValueId>& in) {
    return p.t.op(name, in);
  };
  if (op == "mod") {  // Python's, and 0 where the divisor is 0
    const ValueId zero = p.number(a, 0);
    return last("where", {p.op("equal", "by_zero", {b, zero}), zero, p.op("mod", "rest", {a, b})});
  }
  if (op == "hypot")
    return last("sqrt", {p.op("add", "squares",
                              {p.op("mul", "square_a", {a, a}), p.op("mul", "square_b", {b, b})})});
  const bool logic = op == "and" || op == "or" || op == "xor";
  if (logic) return p.truth("", p.op(op, "truth", {p.holds("a", a), p.holds("b", b)}), a);
  if (op == "not_equal")
    return p.truth("", p.op("not", "truth", {p.op("equal", "equal", {a, b})}), a);
  if (op == "equal" || op.starts_with("greater") || op.starts_with("less"))
    return p.truth("", p.op(op, "truth", {a, b}), a);
  return last(op, {a, b});
}

// The operands' operator of a name, in one of the forms that MXNet has had for it.
std::string_view binary_of(std::string_view name) {
  for (const std::string_view begin : {"elemwise_", "broadcast_", "_grad_", "_"})
    if (name.starts_with(begin)) return find(kBinary, name.substr(begin.size()));
  return {};
}

std::string lower(std::string_view name) {
  std::string out;
  for (const char c : name) out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return out;
}

std::optional<ValueId> with_number(const Parts& p, std::string_view name) {
  // 0.x wrote _PlusScalar.
  constexpr std::string_view kNew = "_scalar", kOld = "Scalar";
  std::string core;
  if (name.ends_with(kNew))
    core = name.substr(0, name.size() - kNew.size());
  else if (name.ends_with(kOld))
    core = lower(name.substr(0, name.size() - kOld.size()));
  if (!core.starts_with('_')) return std::nullopt;
  core.erase(0, 1);
  std::string_view op = find(kBinary, core);
  bool turned = false;
  if (op.empty() && core.starts_with('r')) {
    op = find(kBinary, std::string_view(core).substr(1));
    turned = true;
  }
  if (op.empty()) return std::nullopt;
  const ValueId x = p.t.x();
  const float v = p.t.number("scalar", 0);
  if (!is_floating(p.t.g.dtype(x)) && v != std::trunc(v))
    throw bad_input("the number {} with integers", v);
  const ValueId c = p.number(x, v);
  return turned ? binary(p, op, c, x) : binary(p, op, x, c);
}

ValueId times(const Parts& p, ValueId x, double by) { return p.t.op("mul", {x, p.number(x, by)}); }

// Toward zero.
ValueId cut(const Parts& p, ValueId x) {
  return p.t.op("mul",
                {p.op("floor", "floor", {p.op("abs", "abs", {x})}), p.op("sign", "sign", {x})});
}

// To the nearest, halves down, as MXNet's rint compares the two distances.
ValueId rint(const Parts& p, ValueId x) {
  const ValueId below = p.op("floor", "below", {x}), above = p.op("ceil", "above", {x});
  return p.t.op("where", {p.op("less_or_equal", "nearer",
                               {p.op("sub", "over", {x, below}), p.op("sub", "under", {above, x})}),
                          below, above});
}

// To the nearest, halves away from zero: that of |x|, with the sign.
ValueId round(const Parts& p, ValueId x) {
  const ValueId size = p.op("abs", "abs", {x}), floor = p.op("floor", "floor", {size});
  const ValueId up =
      p.op("greater_or_equal", "up", {p.op("sub", "rest", {size, floor}), p.number(x, 0.5)});
  const ValueId nearest =
      p.op("where", "nearest", {up, p.op("add", "next", {floor, p.number(x, 1)}), floor});
  return p.t.op("mul", {nearest, p.op("sign", "sign", {x})});
}

ValueId smooth_l1(const Parts& p, ValueId x) {
  const double square = std::pow(static_cast<double>(p.t.number("scalar", 1)), 2);
  if (!(square > 0)) throw bad_input("smooth_l1 with scalar=0");
  const ValueId size = p.op("abs", "abs", {x});
  const ValueId far = p.op("sub", "far", {size, p.number(x, 0.5 / square)});
  const ValueId near =
      p.op("mul", "near", {p.op("mul", "square", {x, x}), p.number(x, 0.5 * square)});
  return p.t.op("where", {p.op("greater", "is_far", {size, p.number(x, 1 / square)}), far, near});
}

ValueId cast_to(const Parts& p, ValueId x) {
  const std::string to = p.t.attribute("dtype", "float32");
  if (to == "float32" || to == "float64") {
    if (to == "float64") p.t.g.note("float64 is computed in f32");
    return p.t.op("cast", {x}, {{"to", std::string("f32")}});
  }
  if (to == "float16" || to == "bfloat16") {
    p.t.g.note(fmt::format("a cast to {} rounds; what follows is computed in f32", to));
    return p.t.op("cast", {p.cast("rounded", x, to == "float16" ? "f16" : "bf16")},
                  {{"to", std::string("f32")}});
  }
  if (to == "bool") return p.truth("", p.holds("holds", x), x);
  constexpr Names kTypes[] = {{"int8", "i8"}, {"uint8", "u8"}, {"int32", "i32"}, {"int64", "i64"}};
  const std::string_view type = find(kTypes, to);
  if (type.empty()) throw bad_input("a cast to {} is not supported", printable(to));
  return p.t.op("cast", {x}, {{"to", std::string(type)}});
}

// The condition has the shape of what is chosen, or a number for each row of it.
ValueId where(const Parts& p) {
  ValueId condition = p.holds("condition", p.t.x(0));
  const int rank = p.t.g.rank(p.t.x(1));
  if (p.t.g.rank(condition) == 1 && rank > 1 && !p.t.numpy()) {
    Ints axes;
    for (int i = 1; i < rank; ++i) axes.push_back(i);
    condition = p.unsqueeze("rows", condition, axes);
  }
  return p.t.op("where", {condition, p.t.x(1), p.t.x(2)});
}

}  // namespace

ValueId Parts::number(ValueId like, double v) const {
  return t.g.constant(name("number"), scalar_of(t.g.dtype(like), v));
}

ValueId Parts::truth(std::string_view role, ValueId v, ValueId like) const {
  const Fields to{{"to", std::string(etalon::name(t.g.dtype(like)))}};
  return role.empty() ? t.op("cast", {v}, to) : op("cast", role, {v}, to);
}

ValueId Parts::holds(std::string_view role, ValueId v) const {
  if (t.g.dtype(v) == DType::boolean) return v;
  const std::string zero = std::string(role) + ".zero";
  return op("not", role, {op("equal", zero, {v, number(v, 0)})});
}

std::optional<ValueId> value_of(Translator& t) {
  const std::string& n = t.operator_name();
  const Parts p{t};
  if (const auto name = find(kUnary, n); !name.empty()) {
    if (n == "Dropout" && t.attribute("mode") == "always")
      throw bad_input("a dropout that is applied at inference, too (mode=always)");
    if (n == "Dropout") t.g.note("dropout does nothing at inference");
    return t.op(name, {t.x()});
  }
  if (const auto y = with_number(p, n)) return y;
  if (auto name = binary_of(lower(n)); !name.empty()) return binary(p, name, t.x(0), t.x(1));
  if (n == "square") return t.op("mul", {t.x(), t.x()});
  if (n == "rcbrt") return t.op("reciprocal", {p.op("cbrt", "cbrt", {t.x()})});
  if (n == "fix" || n == "trunc") return cut(p, t.x());
  if (n == "rint") return rint(p, t.x());
  if (n == "round") return round(p, t.x());
  if (n == "degrees") return times(p, t.x(), 180 / M_PI);
  if (n == "radians") return times(p, t.x(), M_PI / 180);
  if (n == "logical_not")
    return p.truth("", p.op("equal", "zero", {t.x(), p.number(t.x(), 0)}), t.x());
  if (n == "smooth_l1") return smooth_l1(p, t.x());
  if (n == "Cast" || n == "cast" || n == "amp_cast") return cast_to(p, t.x());
  if (n == "where") return where(p);
  return std::nullopt;
}

}  // namespace etalon::mxnet
