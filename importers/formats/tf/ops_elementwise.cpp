#include <algorithm>
#include <numeric>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/formats/integer_quotient.h"
#include "importers/formats/scalar.h"
#include "importers/formats/tf/ops.h"
#include "importers/formats/translate.h"

namespace etalon::tf {
namespace {

const std::map<std::string_view, std::string_view> kBinary{
    {"Add", "add"},         {"AddV2", "add"},
    {"Sub", "sub"},         {"Mul", "mul"},
    {"Div", "div"},         {"RealDiv", "div"},
    {"Maximum", "max"},     {"Minimum", "min"},
    {"Pow", "pow"},         {"BiasAdd", "add"},
    {"Less", "less"},       {"LessEqual", "less_or_equal"},
    {"Greater", "greater"}, {"GreaterEqual", "greater_or_equal"},
    {"Equal", "equal"},     {"LogicalAnd", "and"},
    {"LogicalOr", "or"},    {"FloorMod", "mod"}};

}  // namespace

const std::map<std::string_view, std::string_view>& unary_ops() {
  static const std::map<std::string_view, std::string_view> kUnary{
      {"Relu", "relu"},
      {"Elu", "elu"},
      {"Selu", "selu"},
      {"Sigmoid", "sigmoid"},
      {"Tanh", "tanh"},
      {"Softplus", "softplus"},
      {"Softsign", "softsign"},
      {"Exp", "exp"},
      {"Log", "log"},
      {"Sqrt", "sqrt"},
      {"Rsqrt", "rsqrt"},
      {"Neg", "neg"},
      {"Abs", "abs"},
      {"Floor", "floor"},
      {"Ceil", "ceil"},
      {"Round", "round"},
      {"Rint", "round"},
      {"Sin", "sin"},
      {"Cos", "cos"},
      {"Tan", "tan"},
      {"Asin", "asin"},
      {"Acos", "acos"},
      {"Atan", "atan"},
      {"Sinh", "sinh"},
      {"Cosh", "cosh"},
      {"Asinh", "asinh"},
      {"Acosh", "acosh"},
      {"Atanh", "atanh"},
      {"Erf", "erf"},
      {"Erfc", "erfc"},
      {"Expm1", "expm1"},
      {"Log1p", "log1p"},
      {"Reciprocal", "reciprocal"},
      {"Inv", "reciprocal"},
      {"Sign", "sign"},
      {"LogicalNot", "not"},
      {"IsNan", "is_nan"},
      {"IsInf", "is_inf"},
      {"Identity", "identity"},
      {"StopGradient", "identity"},
      {"Snapshot", "identity"},
      {"PreventGradient", "identity"},
      {"CheckNumerics", "identity"},
      {"PlaceholderWithDefault", "identity"},
      {"ReadVariableOp", "identity"},
      {"EnsureShape", "identity"}};
  return kUnary;
}

// A bias by channel, beside x.
ValueId Ops::bias(ValueId x, ValueId b) {
  if (!first()) return b;
  Ints dims{g.shape(b).numel()};
  dims.resize(static_cast<std::size_t>(std::max(g.rank(x) - 1, 1)), 1);
  return g.reshape(part("bias"), b, dims);
}

// Whether the elements hang on extents alone and are none below `least`.
bool Ops::counts(ValueId v, std::int64_t least) const {
  const auto [one, other] = g.known_elements(v);
  if (one == nullptr) return false;
  const auto above = [&](const Tensor* t) {
    return std::ranges::all_of(to_int64_values(*t), [&](std::int64_t e) { return e >= least; });
  };
  return above(one) && above(other);
}

std::optional<ValueId> Ops::elementwise() {
  const std::string& op = n_->op;
  if (const auto at = unary_ops().find(op); at != unary_ops().end()) {
    const ValueId y =
        at->second == "identity" ? n_->in(0) : g.elementwise(at->second, n_->name, {n_->in(0)});
    return y;
  }
  if ((op == "FloorDiv" || op == "FloorMod") && counts(n_->in(0), 0) && counts(n_->in(1), 1)) {
    // Of extents, which are not below 0: arithmetic that keeps what is known of them.
    const ValueId quotient = g.op("div", n_->name, {n_->in(0), n_->in(1)});
    if (op == "FloorDiv") return quotient;
    return g.op("sub", part("rest"),
                {n_->in(0), g.op("mul", part("whole"), {quotient, n_->in(1)})});
  }
  if (const auto at = kBinary.find(op); at != kBinary.end()) {
    const ValueId b = op == "BiasAdd" ? bias(n_->in(0), n_->in(1)) : n_->in(1);
    return g.elementwise(at->second, n_->name, {n_->in(0), b});
  }
  if (op == "NotEqual")
    return g.elementwise("not", n_->name,
                         {g.elementwise("equal", part("equal"), {n_->in(0), n_->in(1)})});
  if (op == "Relu6")
    return g.elementwise("clip", n_->name, {n_->in(0)}, {{"min", 0.0F}, {"max", 6.0F}});
  if (op == "ReluN1To1")
    return g.elementwise("clip", n_->name, {n_->in(0)}, {{"min", -1.0F}, {"max", 1.0F}});
  if (op == "LeakyRelu")
    return g.elementwise("leaky_relu", n_->name, {n_->in(0)},
                         {{"alpha", n_->number("alpha", 0.2F)}});
  if (op == "Prelu") return g.elementwise("prelu", n_->name, {n_->in(0), n_->in(1)});
  if (op == "HardSwish") return g.elementwise("hard_swish", n_->name, {n_->in(0)});
  if (op == "Gelu")
    return g.elementwise("gelu", n_->name, {n_->in(0)},
                         {{"approximate", std::string(n_->flag("approximate") ? "tanh" : "none")}});
  if (op == "TruncateMod" || op == "Mod")
    return g.elementwise("mod", n_->name, {n_->in(0), n_->in(1)}, {{"fmod", true}});
  if (op == "TruncateDiv") return g.elementwise("div", n_->name, {n_->in(0), n_->in(1)});
  if (op == "DivNoNan") {
    const ValueId zero = g.elementwise("sub", part("zero"), {n_->in(1), n_->in(1)});
    return g.op("where", n_->name,
                {g.elementwise("equal", part("no"), {n_->in(1), zero}), zero,
                 g.elementwise("div", part("quotient"), {n_->in(0), n_->in(1)})});
  }
  if (op == "Square") return g.elementwise("mul", n_->name, {n_->in(0), n_->in(0)});
  if (op == "SquaredDifference") {
    const ValueId d = g.elementwise("sub", part("difference"), {n_->in(0), n_->in(1)});
    return g.elementwise("mul", n_->name, {d, d});
  }
  if (op == "FloorDiv" && !is_floating(g.dtype(n_->in(0))))
    return floor_quotient(g, n_->name, n_->in(0), n_->in(1));
  if (op == "FloorDiv")
    return g.elementwise("floor", n_->name,
                         {g.elementwise("div", part("quotient"), {n_->in(0), n_->in(1)})});
  if (op == "AddN" || op == "AccumulateNV2") {
    ValueId sum = n_->in(0);
    for (std::size_t i = 1; i < n_->inputs.size(); ++i)
      sum = g.elementwise("add", n_->name, {sum, n_->in(i)});
    return sum;
  }
  if (op == "ClipByValue") return g.op("clip", n_->name, {n_->in(0), n_->in(1), n_->in(2)});
  if (op == "SelectV2" || op == "Select") {
    if (op == "Select" && g.known(n_->in(0)) && g.known(n_->in(1)) && g.rank(n_->in(0)) == 1 &&
        g.rank(n_->in(1)) > 1) {
      Ints dims(static_cast<std::size_t>(g.rank(n_->in(1))), 1);
      dims[0] = -1;
      return emit("where", {g.reshape(part("condition"), n_->in(0), dims), n_->in(1), n_->in(2)});
    }
    return emit("where");
  }
  if (op == "Cast") {
    const std::string to = n_->text("DstT");
    if (!find_dtype(to)) throw bad_input("a cast to no element type");
    if (n_->flag("Truncate")) throw bad_input("a cast that cuts digits off (Truncate)");
    // A number that the file says stays one: lengths of ranges are computed so.
    const Tensor* c = g.constant_of(n_->in(0));
    if (c != nullptr && c->numel() == 1 && to == "f32" &&
        (c->dtype() == DType::i32 || c->dtype() == DType::i64))
      return g.constant(n_->name,
                        scalar_of(DType::f32, load_as_double(*c, 0)).reshaped(c->shape()));
    return g.elementwise("cast", n_->name, {n_->in(0)}, {{"to", to}});
  }
  return std::nullopt;
}
}  // namespace etalon::tf
