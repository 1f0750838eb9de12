// Sums, extremes, moments, norms of vectors, orders.
#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "importers/formats/pytorch/aten_parts.h"
#include "importers/formats/scalar.h"

namespace etalon::pytorch_format {
namespace {

using Kind = AtenValue::Kind;

constexpr AtenSignature kSignatures[] = {
    {"sum", {"self", "dim", "keepdim", "dtype"}},
    {"mean", {"self", "dim", "keepdim", "dtype"}},
    {"prod", {"self", "dim", "keepdim", "dtype"}},
    {"max", {"self", "dim", "keepdim"}},
    {"min", {"self", "dim", "keepdim"}},
    {"amax", {"self", "dim", "keepdim"}},
    {"amin", {"self", "dim", "keepdim"}},
    {"argmax", {"self", "dim", "keepdim"}},
    {"argmin", {"self", "dim", "keepdim"}},
    {"topk", {"self", "k", "dim", "largest", "sorted"}},
    {"cumsum", {"self", "dim", "dtype"}},
    {"logsumexp", {"self", "dim", "keepdim"}},
    {"any", {"self", "dim", "keepdim"}},
    {"all", {"self", "dim", "keepdim"}},
    {"var", {"self", "dim", "unbiased", "keepdim"}},
    {"std", {"self", "dim", "unbiased", "keepdim"}},
    {"var_mean", {"self", "dim", "unbiased", "keepdim"}},
    {"std_mean", {"self", "dim", "unbiased", "keepdim"}},
    {"aminmax", {"self", "dim", "keepdim"}},
    {"count_nonzero", {"self", "dim"}},
    {"norm", {"self", "p", "dim", "keepdim", "dtype"}},
    {"linalg_vector_norm", {"self", "ord", "dim", "keepdim", "dtype"}},
    {"frobenius_norm", {"self", "dim", "keepdim"}},
};

// Sums and products of whole numbers or truth are i64 where no dtype is told.
ValueId summed_type(GraphBuilder& b, const std::string& name, ValueId x, const AtenCall& c) {
  if (c.find("dtype") != nullptr) return cast_as_told(b, name, x, c);
  return is_floating(b.dtype(x)) ? x : aten_cast(b, name, x, DType::i64);
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
    n = checked_mul(n, d);
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

AtenOutputs translate(GraphBuilder& b, const std::string& op, const std::string& name,
                      const AtenCall& c) {
  ValueId x = first_tensor(c, op);
  const bool keep = c.flag("keepdim", false);
  const auto over = [&](std::string_view ours, ValueId v) {
    return b.op(ours, name, {v}, {{"axes", aten_axes(b, v, c)}, {"keepdims", keep}});
  };
  if (op == "amax" || op == "amin") return {over(op == "amax" ? "reduce_max" : "reduce_min", x)};
  if (op == "logsumexp") return {over("reduce_log_sum_exp", x)};
  if (op == "prod") return {over("reduce_prod", summed_type(b, name, x, c))};
  if (op == "sum") return {over("reduce_sum", summed_type(b, name, x, c))};
  if (op == "mean") return {over("reduce_mean", cast_as_told(b, name, x, c))};
  if (op == "any" || op == "all")
    return {over(op == "any" ? "reduce_max" : "reduce_min", aten_cast(b, name, x, DType::boolean))};
  if (op == "max" || op == "min") {
    const AtenValue* dim = c.find("dim");
    ValueId y = c.tensor("other");
    if (y == kAbsent && dim != nullptr && dim->kind == Kind::tensor) y = dim->tensor;
    if (y != kAbsent) return {paired(b, op, name, x, y)};
    const ValueId most = over(op == "max" ? "reduce_max" : "reduce_min", x);
    if (dim == nullptr) return {most};
    return {most, b.op(op == "max" ? "arg_max" : "arg_min", name + ".index", {x},
                       {{"axis", aten_axis(b, x, c.integer("dim", 0))}, {"keepdims", keep}})};
  }
  if (op == "argmax" || op == "argmin") {
    if (c.find("dim") == nullptr)
      return {b.op(op == "argmax" ? "arg_max" : "arg_min", name,
                   {b.reshape(name + ".flat", x, {-1})},
                   {{"axis", std::int64_t{0}}, {"keepdims", false}})};
    return {b.op(op == "argmax" ? "arg_max" : "arg_min", name, {x},
                 {{"axis", aten_axis(b, x, c.integer("dim", 0))}, {"keepdims", keep}})};
  }
  if (op == "topk")
    return b.nodes("top_k", name, {x},
                   make_params(get_op("top_k"), {{"axis", aten_axis(b, x, c.integer("dim", -1))},
                                                 {"k", c.integer("k", 1)},
                                                 {"largest", c.flag("largest", true)}}),
                   2);
  if (op == "cumsum") {
    const ValueId v = summed_type(b, name, x, c);
    return {b.op("cum_sum", name, {v}, {{"axis", aten_axis(b, x, c.integer("dim", 0))}})};
  }
  if (op == "var") return {moments(b, name, x, c).first};
  if (op == "std") return {b.op("sqrt", name + ".root", {moments(b, name, x, c).first})};
  if (op == "std_mean") {
    const auto [v, m] = moments(b, name, x, c);
    return {b.op("sqrt", name + ".root", {v}), m};
  }
  if (op == "aminmax") return {over("reduce_min", x), over("reduce_max", x)};
  if (op == "count_nonzero")
    return {
        over("reduce_sum", aten_cast(b, name, aten_cast(b, name, x, DType::boolean), DType::i64))};
  if (op == "var_mean") {
    const auto [v, m] = moments(b, name, x, c);
    return {v, m};
  }
  if (op == "norm" || op == "linalg_vector_norm" || op == "frobenius_norm") {
    const float p = op == "frobenius_norm" ? 2.0F : c.number(op == "norm" ? "p" : "ord", 2);
    if (p == 1) return {over("reduce_l1", x)};
    if (p == 2) return {over("reduce_l2", x)};
    if (std::isinf(p) && p > 0) return {over("reduce_max", b.op("abs", name + ".abs", {x}))};
    if (std::isinf(p)) return {over("reduce_min", b.op("abs", name + ".abs", {x}))};
    const auto number = [&](double v) {
      return b.constant(name + ".order", scalar_of(b.dtype(x), v));
    };
    if (p == 0) {
      const ValueId is_zero = b.op("equal", name + ".zero", {x, number(0)});
      return {over("reduce_sum",
                   aten_cast(b, name, b.op("not", name + ".counted", {is_zero}), b.dtype(x)))};
    }
    b.note("a norm of another order is its powers and their sum, each rounds.");
    const ValueId sum =
        over("reduce_sum", b.op("pow", name + ".powers",
                                {b.op("abs", name + ".abs", {x}), number(static_cast<double>(p))}));
    return {b.op("pow", name + ".root", {sum, number(1 / static_cast<double>(p))})};
  }
  throw AtenUnknown{op};
}

}  // namespace

AtenFamily reduction_family() { return {kSignatures, translate}; }

}  // namespace etalon::pytorch_format
