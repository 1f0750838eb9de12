// Layers that compute element by element, along an axis, or over some axes. Source: ncnn's public
// documentation ("operators").
#include <algorithm>
#include <cmath>
#include <tuple>

#include "engine/core/error.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

ValueId scalar(const Layer& l, const char* role, float v) {
  return l.g.constant(fmt::format("{}.{}", l.name, role), scalar_f32(v));
}

Ints axes_from(const Layer& l, int first) {
  Ints axes;
  for (int a = first; a < l.g.rank(l.input()); ++a) axes.push_back(a);
  return axes;
}

// shift + x * scale, where they change anything.
ValueId shifted(const Layer& l) {
  ValueId y = l.input();
  const float scale = l.number(1, 1), shift = l.number(2, 0);
  if (scale != 1) y = l.g.op("mul", l.name + ".scaled", {y, scalar(l, "scale", scale)});
  if (shift != 0) y = l.g.op("add", l.name + ".shifted", {y, scalar(l, "shift", shift)});
  return y;
}

ValueId exponential(const Layer& l, Weights&) {
  const float base = l.number(0, -1);
  const ValueId x = shifted(l);
  return base == -1 ? l.g.op("exp", l.name, {x})
                    : l.g.op("pow", l.name, {scalar(l, "base", base), x});
}

ValueId logarithm(const Layer& l, Weights&) {
  const float base = l.number(0, -1);
  const ValueId y = l.g.op("log", l.name, {shifted(l)});
  if (base == -1) return y;
  if (!(base > 0) || base == 1) throw bad_input("a logarithm of base {}", base);
  return l.g.op("mul", l.name + ".based", {y, scalar(l, "by", 1 / std::log(base))});
}

ValueId power(const Layer& l, Weights&) {
  const float by = l.number(0, 1);
  const ValueId x = shifted(l);
  return by == 1 ? x : l.g.op("pow", l.name, {x, scalar(l, "power", by)});
}

ValueId threshold(const Layer& l, Weights&) {
  const ValueId above =
      l.g.op("greater", l.name + ".above", {l.input(), scalar(l, "bound", l.number(0, 0))});
  return l.g.op("cast", l.name, {above}, {{"to", std::string("f32")}});
}

ValueId gated(const Layer& l, Weights&) {
  const std::int64_t axis = l.g.rank(l.input()) == 2 ? 1 : l.axis(l.integer(0, 0));
  const std::int64_t extent = l.g.shape(l.input())[static_cast<int>(axis)];
  if (extent % 2 != 0) throw bad_input("halves of {} elements", extent);
  const Params halves =
      make_params(get_op("split"), {{"axis", axis}, {"num_outputs", std::int64_t{2}}});
  const auto parts = l.g.nodes("split", l.name + ".halves", {l.input()}, halves, 2);
  return l.g.op("mul", l.name, {parts[0], l.g.op("sigmoid", l.name + ".gate", {parts[1]})});
}

ValueId running_sum(const Layer& l, Weights&) {
  const std::int64_t named = l.integer(0, 0);
  return l.g.op("cum_sum", l.name, {l.input()},
                {{"axis", l.g.rank(l.input()) == 2 ? std::int64_t{1} : l.axis(named)}});
}

ValueId reduction(const Layer& l, Weights&) {
  static constexpr const char* kOps[] = {"reduce_sum",     "reduce_l1",         "reduce_sum_square",
                                         "reduce_mean",    "reduce_max",        "reduce_min",
                                         "reduce_prod",    "reduce_l1",         "reduce_l2",
                                         "reduce_log_sum", "reduce_log_sum_exp"};
  const std::int64_t kind = l.integer(0, 0);
  if (kind < 0 || kind > 10) throw bad_input("the operation {}", kind);
  Ints axes = l.integers(3);
  const bool everything = l.integer(1, 1) != 0 || axes.empty(), keep = l.integer(4, 0) != 0;
  // Files before this mark counted a batch among the axes.
  if (l.integer(5, 0) == 0 && !axes.empty())
    throw bad_input("axes of an old file that count a batch: ncnn refuses them, too");
  for (std::int64_t& a : axes) a = l.axis(a);
  if (everything) axes = axes_from(l, 1);
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  const int left = l.g.rank(l.input()) - static_cast<int>(axes.size());
  ValueId y = l.g.op(kOps[kind], l.name, {l.input()}, {{"axes", axes}, {"keepdims", keep}});
  if (const float by = l.number(2, 1); by != 1)
    y = l.g.op("mul", l.name + ".scaled", {y, scalar(l, "by", by)});
  // A sample has an axis at least.
  return left == 1 && !keep ? l.g.reshape(l.name + ".one", y, {0, 1}) : y;
}

ValueId statistics(const Layer& l, Weights&) {
  const ValueId x = l.input();
  if (l.g.rank(x) < 4) throw bad_input("statistics of a sample of rank {}", l.g.rank(x) - 1);
  const Fields over{{"axes", axes_from(l, 2)}, {"keepdims", true}};
  const ValueId mean = l.g.op("reduce_mean", l.name + ".mean", {x}, over);
  ValueId y = mean;
  if (l.integer(0, 0) != 0) {
    const ValueId d = l.g.op("sub", l.name + ".centred", {x, mean});
    const ValueId v = l.g.op("reduce_mean", l.name + ".variance",
                             {l.g.op("mul", l.name + ".squares", {d, d})}, over);
    y = l.g.op("concat", l.name + ".both", {mean, l.g.op("sqrt", l.name + ".deviation", {v})},
               {{"axis", std::int64_t{1}}});
  }
  return l.g.op("flatten", l.name, {y});
}

// x over the square root of a sum of squares, times a weight for all or for each channel.
ValueId normalize(const Layer& l, Weights& weights) {
  const bool spatial = l.integer(0, 0) != 0, channels = l.integer(4, 1) != 0;
  const std::int64_t mode = l.integer(9, 0), n = l.integer(3, 0);
  const bool shared = l.integer(1, 0) != 0, image = l.g.rank(l.input()) > 3;
  static constexpr const char* kModes[] = {"sum_add", "norm_max", "sum_max"};
  if (mode < 0 || mode > 2) throw bad_input("epsilon of mode {}", mode);
  if (!spatial && (!channels || !image)) throw bad_input("a normalisation over no axis");
  const Tensor scale = weights.plain(n);
  if (n < 1 || (n != 1 && (shared || !image || n != l.g.shape(l.input())[1])))
    throw bad_input("{} weights for {}", n, to_string(l.g.shape(l.input())));
  const Ints axes = !spatial ? Ints{1} : axes_from(l, channels || !image ? 1 : 2);
  const ValueId y = l.g.op(
      "lp_norm", l.name, {l.input()},
      {{"axes", axes}, {"eps", l.number(2, 0.0001F)}, {"eps_in", std::string(kModes[mode])}});
  Ints dims(static_cast<std::size_t>(std::max(l.g.rank(l.input()) - 1, 1)), 1);
  dims[0] = n;
  return l.g.op("mul", l.name + ".scaled",
                {y, l.g.constant(l.name + ".scale", scale.reshaped(Shape(std::span(dims))))});
}

// The axis from which on the extents make up `size` elements.
int innermost(const Layer& l, std::int64_t size) {
  const Shape& shape = l.g.shape(l.input());
  std::int64_t n = 1;
  for (int a = shape.rank() - 1; a >= 1; --a) {
    n *= shape[a];
    if (n == size) return a;
    if (n > size) break;
  }
  throw bad_input("{} weights for {}", size, to_string(shape));
}

ValueId layer_norm(const Layer& l, Weights& weights) {
  const bool root = l.type == "RMSNorm";
  const std::int64_t size = l.integer(0, 0);
  const int axis = innermost(l, size);
  std::vector<ValueId> in{l.input()};
  if (l.integer(2, 1) != 0) {
    const Shape& shape = l.g.shape(l.input());
    Ints dims;
    for (int a = axis; a < shape.rank(); ++a) dims.push_back(shape[a]);
    const auto weight = [&](const char* role) {
      in.push_back(l.g.constant(fmt::format("{}.{}", l.name, role),
                                weights.plain(size).reshaped(Shape(std::span(dims)))));
    };
    weight("scale");
    if (!root) weight("bias");
  }
  return l.g.op(root ? "rms_norm" : "layer_norm", l.name, in,
                {{"axis", std::int64_t{axis}}, {"eps", l.number(1, 0.001F)}});
}

ValueId group_norm(const Layer& l, Weights& weights) {
  const std::int64_t c = l.integer(1, 0);
  std::vector<ValueId> in{l.input()};
  if (l.integer(3, 1) != 0)
    for (const char* role : {"scale", "bias"})
      in.push_back(l.g.constant(fmt::format("{}.{}", l.name, role), weights.plain(c)));
  return l.g.op("group_norm", l.name, in,
                {{"groups", l.integer(0, 1)}, {"eps", l.number(2, 0.001F)}});
}

ValueId centred(const Layer& l, Weights&) {
  const bool channels = l.integer(1, 0) != 0;
  if (l.g.rank(l.input()) < 4) throw bad_input("a sample of rank {}", l.g.rank(l.input()) - 1);
  return l.g.op("mean_variance_normalization", l.name, {l.input()},
                {{"axes", axes_from(l, channels ? 1 : 2)},
                 {"normalize_variance", l.integer(0, 0) != 0},
                 {"eps", l.number(2, 0.0001F)}});
}

ValueId unary(const Layer& l, Weights&) {
  static constexpr const char* kOps[] = {
      "abs",  "neg",   "floor", "ceil",  "",     "sqrt",       "rsqrt", "exp",   "log",   "sin",
      "cos",  "tan",   "asin",  "acos",  "atan", "reciprocal", "tanh",  "log10", "round", "",
      "sign", "expm1", "sinh",  "asinh", "cosh", "acosh",      "atanh", "log1p"};
  const std::int64_t kind = l.integer(0, 0);
  if (kind < 0 || kind > 27) throw bad_input("the operation {}", kind);
  const ValueId x = l.input();
  if (kind == 4) return l.g.op("mul", l.name, {x, x});
  if (kind == 19) {  // cut toward zero
    const ValueId down = l.g.op("floor", l.name + ".floor", {l.g.op("abs", l.name + ".abs", {x})});
    return l.g.op("mul", l.name, {down, l.g.op("sign", l.name + ".sign", {x})});
  }
  return l.g.op(kOps[kind], l.name, {x});
}

ValueId binary(const Layer& l, Weights&) {
  struct Kind {
    const char* op;
    bool turned = false;
  };
  static constexpr Kind kKinds[] = {
      {"add"},  {"sub"},        {"mul"},       {"div"},       {"max"},        {"min"},
      {"pow"},  {"sub", true},  {"div", true}, {"pow", true}, {""},           {""},
      {"fmod"}, {"fmod", true}, {"logaddexp"}, {"floor"},     {"floor", true}};
  const std::int64_t kind = l.integer(0, 0);
  if (kind < 0 || kind > 16 || *kKinds[kind].op == 0) throw bad_input("the operation {}", kind);
  const std::string_view op = kKinds[kind].op;
  ValueId a = l.input(), b = kAbsent;
  if (l.integer(1, 0) != 0)
    b = scalar(l, "b", l.number(2, 0));
  else
    std::tie(a, b) = of_one_rank(l, a, l.input(1));
  if (kKinds[kind].turned) std::swap(a, b);
  if (op == "fmod") return l.g.op("mod", l.name, {a, b}, {{"fmod", true}});
  if (op == "floor") return l.g.op("floor", l.name, {l.g.op("div", l.name + ".quotient", {a, b})});
  if (op != "logaddexp") return l.g.op(op, l.name, {a, b});
  // max + log(1 + e^-|a - b|)
  const ValueId d = l.g.op("abs", l.name + ".abs", {l.g.op("sub", l.name + ".difference", {a, b})});
  const ValueId more = l.g.op("softplus", l.name + ".more", {l.g.op("neg", l.name + ".neg", {d})});
  return l.g.op("add", l.name, {l.g.op("max", l.name + ".max", {a, b}), more});
}

ValueId shrink(const Layer& l, Weights&) {
  return l.g.op("shrink", l.name, {l.input()},
                {{"bias", l.number(0, 0)}, {"lambd", l.number(1, 0.5F)}});
}
ValueId celu(const Layer& l, Weights&) {
  return l.g.op("celu", l.name, {l.input()}, {{"alpha", l.number(0, 1)}});
}
ValueId erf(const Layer& l, Weights&) { return l.g.op("erf", l.name, {l.input()}); }
ValueId bnll(const Layer& l, Weights&) { return l.g.op("softplus", l.name, {l.input()}); }

}  // namespace

std::span<const LayerRow> arithmetic_rows() {
  static constexpr LayerRow kRows[] = {
      {"BNLL", bnll},
      {"BinaryOp", binary},
      {"CELU", celu},
      {"CumulativeSum", running_sum},
      {"Erf", erf},
      {"Exp", exponential},
      {"GLU", gated},
      {"GroupNorm", group_norm},
      {"LayerNorm", layer_norm},
      {"Log", logarithm},
      {"MVN", centred},
      {"Normalize", normalize},
      {"Power", power},
      {"RMSNorm", layer_norm},
      {"Reduction", reduction},
      {"Shrink", shrink},
      {"StatisticsPooling", statistics},
      {"Threshold", threshold},
      {"UnaryOp", unary},
  };
  return kRows;
}

}  // namespace etalon::ncnn
