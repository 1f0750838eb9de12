#include "bench/compare/carried.h"

#include <algorithm>
#include <cmath>

#include "bench/compare/param_fields.h"
#include "engine/numerics/element.h"

namespace etalon {
namespace {

float up(double x) {
  const float f = static_cast<float>(x);
  return static_cast<double>(f) < x ? std::nextafter(f, HUGE_VALF) : f;
}

Tensor absolute(const Tensor& t) {
  Tensor copy = t.clone();
  for (float& x : copy.mutable_data<float>()) x = std::fabs(x);
  return copy;
}

Tensor zeros_like(const Tensor& t) { return Tensor::zeros(DType::f32, t.shape()); }

constexpr std::string_view kOneLipschitz[] = {"relu",    "tanh", "sigmoid",  "abs",
                                              "neg",     "elu",  "softplus", "identity",
                                              "dropout", "clip", "softsign", "hard_sigmoid"};
// Ops that move elements; pad and gather are not among them (they make values of their own).
constexpr std::string_view kMoves[] = {"reshape",   "flatten", "transpose", "squeeze",
                                       "unsqueeze", "slice",   "concat",    "split"};
constexpr std::string_view kWindows[] = {"max_pool", "avg_pool", "global_max_pool",
                                         "global_avg_pool"};
constexpr std::string_view kProducts[] = {"conv", "gemm", "matmul"};

bool among(std::span<const std::string_view> list, std::string_view op) {
  return std::ranges::find(list, op) != list.end();
}

}  // namespace

CarriedValues::CarriedValues(const Registry& registry, Contract contract, int threads, Isa isa,
                             const FunctionAccuracy* functions)
    : contract_(std::move(contract)), eval_(registry, threads, isa), functions_(functions) {}

bool CarriedValues::majorant(const Node& node, const Layer& layer,
                             const std::vector<const Tensor*>& errors, Tensor& result) const {
  const std::string_view op = node.op->name;
  const auto only_first = [&] {
    for (std::size_t i = 1; i < errors.size(); ++i)
      if (errors[i] != nullptr) return false;
    return errors[0] != nullptr;
  };
  if (among(kOneLipschitz, op)) {
    if (!only_first()) return false;
    result = errors[0]->share();
    return true;
  }
  if (op == "softmax") {
    if (!only_first()) return false;
    double largest = 0;
    for (const float e : errors[0]->data<float>())
      largest = std::max(largest, static_cast<double>(e));
    result = errors[0]->clone();
    for (float& e : result.mutable_data<float>()) e = up(std::expm1(2 * largest));
    return true;
  }
  Layer major{layer.op, layer.params, {}};
  if (among(kProducts, op)) {
    if (!only_first() || layer.inputs[1].dtype() != DType::f32) return false;
    if (op == "gemm") {
      const auto fields = fields_of(layer.params);
      const ParamField* alpha = find_field(fields, "alpha");
      if (alpha == nullptr) return false;
      major.params = with_field(layer.params, "alpha", std::fabs(std::get<float>(alpha->value)));
    }
    major.inputs.push_back(errors[0]->share());
    major.inputs.push_back(absolute(layer.inputs[1]));
  } else if (op == "batch_norm") {
    if (!only_first() || layer.inputs.size() < 5) return false;
    for (std::size_t i = 1; i < 5; ++i)
      if (!layer.inputs[i] || layer.inputs[i].dtype() != DType::f32) return false;
    major.inputs.push_back(errors[0]->share());
    major.inputs.push_back(absolute(layer.inputs[1]));
    major.inputs.push_back(zeros_like(layer.inputs[2]));
    major.inputs.push_back(zeros_like(layer.inputs[3]));
    major.inputs.push_back(layer.inputs[4].share());
  } else if (among(kMoves, op) || among(kWindows, op)) {
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const Tensor& x = layer.inputs[i];
      if (errors[i] != nullptr)
        major.inputs.push_back(errors[i]->share());
      else if (x && x.dtype() == DType::f32 && (i == 0 || op == "concat"))
        major.inputs.push_back(zeros_like(x));
      else
        major.inputs.push_back(x ? x.share() : Tensor());  // a shape, axes
    }
  } else if (op == "add" || op == "sub") {
    major.op = &get_op("add");
    for (std::size_t i = 0; i < 2; ++i)
      major.inputs.push_back(errors[i] != nullptr ? errors[i]->share()
                                                  : zeros_like(layer.inputs[i]));
  } else {
    return false;
  }
  std::vector<Tensor> out = eval_.bits(major, Contract::seq());
  if (out.empty() || out[0].dtype() != DType::f32) return false;
  result = std::move(out[0]);
  return true;
}

void CarriedValues::step(const Node& node, const std::function<const Tensor*(ValueId)>& theirs) {
  for (const ValueId v : node.outputs)
    if (v != kAbsent) values_[v] = Value{};
  Layer layer{node.op, node.params, {}};
  std::vector<const Tensor*> errors;
  for (const ValueId v : node.inputs) {
    errors.push_back(nullptr);
    if (v == kAbsent) {
      layer.inputs.emplace_back();
      continue;
    }
    if (const Tensor* x = theirs(v)) {
      layer.inputs.push_back(x->share());
      continue;
    }
    const auto at = values_.find(v);
    if (at == values_.end() || !at->second.known) return;
    layer.inputs.push_back(at->second.mid.share());
    errors.back() = &at->second.error;
  }
  if (node.outputs.empty() || node.outputs[0] == kAbsent) return;
  try {
    Value next;
    std::vector<Tensor> out = eval_.bits(layer, contract_);
    if (out[0].dtype() != DType::f32) return;
    next.mid = std::move(out[0]);
    Tensor spread = Tensor::zeros(DType::f32, next.mid.shape());
    const bool uncertain =
        std::ranges::any_of(errors, [](const Tensor* e) { return e != nullptr; });
    if (uncertain && !majorant(node, layer, errors, spread)) return;
    next.error = Tensor::zeros(DType::f32, next.mid.shape());
    auto error = next.error.mutable_data<float>();
    const auto extra = spread.data<float>();
    for (std::size_t i = 0; i < error.size(); ++i) error[i] = extra[i];
    if (eval_.has_definition(layer) && node.op->nature != OpNature::movement) {
      const auto all = sample_slices(eval_.slices(layer, contract_), std::int64_t{1} << 40);
      for (const OutputBound& b :
           eval_.bounds(layer, contract_, {.acc = contract_.acc, .functions = functions_}, all)) {
        if (b.output != 0) continue;
        const auto i = static_cast<std::size_t>(b.index);
        const double mid = static_cast<double>(next.mid.data<float>()[i]);
        error[i] =
            up((b.bound + static_cast<double>(extra[i])) * (1 + 0x1p-8) + abs_of(mid - b.real));
      }
    }
    next.known = true;
    values_[node.outputs[0]] = std::move(next);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::interrupted) throw;
    // The value stays unknown: what depends on it is undecided.
  }
}

Judgement CarriedValues::judge(ValueId value, const Tensor& got) const {
  Judgement j;
  j.carried = true;
  j.contract = short_name(contract_);
  j.elements = got.numel();
  const auto at = values_.find(value);
  if (at == values_.end() || !at->second.known || !(at->second.mid.type() == got.type())) {
    j.cause = "the values before it were not given, and no bound can be carried through to it";
    j.sentence =
        "No statement can be made: the framework does not show the values this one is "
        "made from.";
    return j;
  }
  const Value& v = at->second;
  j.stats = error_stats(got, v.mid, Tensor());
  j.bits_equal = static_cast<double>(bits_equal(got, v.mid)) /
                 std::max<double>(1, static_cast<double>(got.numel()));
  bool outside = j.stats.non_finite() > 0;
  double bound2 = 0, size2 = 0;
  const auto mid = v.mid.data<float>(), bound = v.error.data<float>(), y = got.data<float>();
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double m = static_cast<double>(mid[i]), b = static_cast<double>(bound[i]);
    if (!(b < kInfinity)) {
      ++j.no_statement;
      continue;
    }
    const double r = abs_of(static_cast<double>(y[i]) - m);
    outside |= r > b;
    if (r > 0) j.bound_used = std::max(j.bound_used, b > 0 ? r / b : kInfinity);
    j.bound_ulp = std::max(j.bound_ulp, b / ulp_of(m, DType::f32));
    bound2 += b * b;
    size2 += m * m;
  }
  if (outside) {
    j.verdict = Verdict::wrong;
    j.cause = "outside the bound carried through the layers before it";
    j.sentence = fmt::format(
        "Wrong: even with every rounding of the layers before it, this cannot come out; errors up "
        "to {:.3g} units of the last digit.",
        j.stats.max_ulp);
  } else if (j.bits_equal == 1) {
    j.verdict = Verdict::identical;
    j.cause = fmt::format("the bits of contract {}, through fused layers", j.contract);
    j.sentence = fmt::format("Right: every bit is the one that contract {} defines.", j.contract);
  } else if (j.no_statement > 0 || bound2 > size2) {
    j.verdict = Verdict::undecided;
    j.cause = "the bound carried through the layers before it is too wide for a statement";
    j.sentence = fmt::format("No statement can be made: {}.", j.cause);
  } else {
    j.verdict = Verdict::explained;
    j.cause = "other orders of summation, in several fused layers (carried bound)";
    j.sentence = fmt::format(
        "Right, as far as can be told: {:.2g} % of what rounding in the fused layers can cause.",
        100 * j.bound_used);
  }
  return j;
}

}  // namespace etalon
