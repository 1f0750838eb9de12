#include "bench/compare/carried.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/compare/lipschitz.h"
#include "bench/compare/param_fields.h"
#include "engine/numerics/element.h"
#include "engine/ops/control.h"
#include "engine/ops/quantize.h"

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

// Ops that move elements; pad and gather are not among them (they make values of their own).
constexpr std::string_view kMoves[] = {"reshape",   "flatten", "transpose", "squeeze",
                                       "unsqueeze", "slice",   "concat",    "split"};
constexpr std::string_view kWindows[] = {"max_pool", "avg_pool", "global_max_pool",
                                         "global_avg_pool"};
constexpr std::string_view kProducts[] = {"conv", "gemm", "matmul"};

// Depend on the input's shape alone.
constexpr std::string_view kShapes[] = {"shape", "size"};

bool among(std::span<const std::string_view> list, std::string_view op) {
  return std::ranges::find(list, op) != list.end();
}

bool is_f32(const Tensor& t) { return t && t.dtype() == DType::f32; }

// The op on these tensors in place of its inputs, with its factors' absolute values: sizes of sums.
std::optional<Tensor> sizes_of_sums(const LayerEvaluator& eval, const Layer& layer, const Tensor& x,
                                    const Tensor& w, const Tensor& b) {
  Layer major{layer.op, layer.params, {}};
  const auto fields = fields_of(layer.params);
  for (const std::string_view factor : {"alpha", "beta"})
    if (const ParamField* f = find_field(fields, factor))
      major.params = with_field(major.params, factor, std::fabs(std::get<float>(f->value)));
  major.inputs.push_back(x.share());
  major.inputs.push_back(w.share());
  if (b) major.inputs.push_back(b.share());
  std::vector<Tensor> out = eval.bits(major, Contract::seq());
  if (out.empty() || !is_f32(out[0])) return std::nullopt;
  return std::move(out[0]);
}

}  // namespace

std::optional<Tensor> product_sizes(const LayerEvaluator& eval, const Layer& layer,
                                    std::int64_t& terms) {
  if (!among(kProducts, layer.op->name)) return std::nullopt;
  for (const Tensor& t : layer.inputs)
    if (t && !is_f32(t)) return std::nullopt;
  const Shape &x = layer.inputs[0].shape(), &w = layer.inputs[1].shape();
  const bool bias = layer.inputs.size() > 2 && layer.inputs[2];
  std::optional<Tensor> sizes =
      sizes_of_sums(eval, layer, absolute(layer.inputs[0]), absolute(layer.inputs[1]),
                    bias ? absolute(layer.inputs[2]) : Tensor());
  if (!sizes) return std::nullopt;
  if (layer.op->name == "conv")
    terms = w.numel() / std::max<std::int64_t>(1, w[0]);
  else if (layer.op->name == "gemm")
    terms = x.numel() / std::max<std::int64_t>(1, sizes->shape()[0]);
  else
    terms = x.dim(-1);
  terms += 3;  // a bias, a factor distributed over the terms, the product's own rounding
  return sizes;
}

CarriedValues::CarriedValues(const Graph& graph, const Registry& registry, Contract contract,
                             int threads, Isa isa, const LibraryAccuracy* library)
    : graph_(graph),
      contract_(std::move(contract)),
      eval_(registry, threads, isa),
      library_(library) {}

CarriedValues::CarriedValues(const Graph& body, const CarriedValues& around)
    : graph_(body), contract_(around.contract_), eval_(around.eval_), library_(around.library_) {}

CarriedValues::Value CarriedValues::value_of(ValueId v, const Theirs& theirs) const {
  if (const Tensor* x = theirs(v)) return {x->share(), Tensor(), true};
  const auto at = values_.find(v);
  if (at == values_.end() || !at->second.known) return {};
  return {at->second.mid.share(), at->second.error ? at->second.error.share() : Tensor(), true};
}

bool CarriedValues::majorant(const Node& node, const Layer& layer,
                             const std::vector<const Tensor*>& errors, const Tensor& mid,
                             std::vector<Tensor>& results) const {
  const std::string_view op = node.op->name;
  Tensor& result = results.emplace_back();
  const auto only_first = [&] {
    for (std::size_t i = 1; i < errors.size(); ++i)
      if (errors[i] != nullptr) return false;
    return errors[0] != nullptr;
  };
  if (const std::optional<Lipschitz> f = lipschitz_of(op, layer.params)) {
    if (!only_first()) return false;
    result = errors[0]->clone();
    if (f->slope != 1 || f->jump != 0)
      for (float& e : result.mutable_data<float>())
        e = up(static_cast<double>(e) * f->slope + f->jump);
    return true;
  }
  if (op == "softmax" || op == "log_softmax") {
    // exp(x + e) lies within a factor exp(+-E), so does their sum: exp(2E) for the quotient.
    if (!only_first() || !is_f32(mid)) return false;
    double largest = 0;
    for (const float e : errors[0]->data<float>())
      largest = std::max(largest, static_cast<double>(e));
    result = mid.clone();
    for (float& e : result.mutable_data<float>())
      e = op == "log_softmax"
              ? up(2 * largest)
              : up((static_cast<double>(e) * (1 + 0x1p-10) + 0x1p-100) * std::expm1(2 * largest));
    return true;
  }
  if (op == "pad") {  // what is added is certain
    if (!only_first()) return false;
    Layer padded{layer.op, with_field(layer.params, "value", 0.0F), {}};
    padded.inputs.push_back(errors[0]->share());
    for (std::size_t i = 1; i < layer.inputs.size(); ++i)
      padded.inputs.push_back(i == 2 || !layer.inputs[i] ? Tensor() : layer.inputs[i].share());
    std::vector<Tensor> out = eval_.bits(padded, Contract::seq());
    if (!is_f32(out[0])) return false;
    result = std::move(out[0]);
    return true;
  }
  Layer major{layer.op, layer.params, {}};
  if (among(kProducts, op)) {
    // sum Ex (|w| + Ew) + |x| Ew, and the bias's own error.
    for (const Tensor& t : layer.inputs)
      if (t && !is_f32(t)) return false;
    const auto error = [&](std::size_t i) {
      return i < errors.size() && errors[i] != nullptr    ? errors[i]->share()
             : i < layer.inputs.size() && layer.inputs[i] ? zeros_like(layer.inputs[i])
                                                          : Tensor();
    };
    Tensor w = absolute(layer.inputs[1]);
    const Tensor ew = error(1);
    auto size = w.mutable_data<float>();
    for (std::size_t i = 0; i < size.size(); ++i)
      size[i] = up(static_cast<double>(size[i]) + static_cast<double>(ew.data<float>()[i]));
    std::optional<Tensor> sum = sizes_of_sums(eval_, layer, error(0), w, error(2));
    if (!sum) return false;
    if (errors[1] != nullptr) {
      const std::optional<Tensor> more =
          sizes_of_sums(eval_, layer, absolute(layer.inputs[0]), ew, Tensor());
      if (!more) return false;
      auto s = sum->mutable_data<float>();
      for (std::size_t i = 0; i < s.size(); ++i)
        s[i] = up(static_cast<double>(s[i]) + static_cast<double>(more->data<float>()[i]));
    }
    result = std::move(*sum);
    return true;
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
  } else if (op == "mul") {
    // Ex |y| + (|x| + Ex) Ey
    const auto each = [&](std::string_view name, const Tensor& a, const Tensor& b) {
      Layer two{&get_op(name), layer.params, {}};
      two.inputs.push_back(a.share());
      two.inputs.push_back(b.share());
      return std::move(eval_.bits(two, Contract::seq())[0]);
    };
    for (const Tensor& t : layer.inputs)
      if (!is_f32(t)) return false;
    const auto error = [&](std::size_t i) {
      return errors[i] != nullptr ? errors[i]->share() : zeros_like(layer.inputs[i]);
    };
    const Tensor ex = error(0), ey = error(1);
    result = each("add", each("mul", ex, absolute(layer.inputs[1])),
                  each("mul", each("add", absolute(layer.inputs[0]), ex), ey));
    // Four roundings, of which two may underflow.
    for (float& e : result.mutable_data<float>())
      e = up(static_cast<double>(e) * (1 + 0x1p-20) + 0x1p-148);
    return true;
  } else {
    return false;
  }
  std::vector<Tensor> out = eval_.bits(major, Contract::seq());
  if (out.empty() || !is_f32(out[0])) return false;
  results.clear();
  for (Tensor& t : out) {
    if (!is_f32(t)) break;  // positions of maxima
    results.push_back(std::move(t));
  }
  if (among(kWindows, op)) {  // a mean of errors in f32 is too small by K u at most
    const Shape& x = layer.inputs[0].shape();
    const double relative = static_cast<double>(x.product(2, x.rank())) * 0x1p-24;
    for (float& e : results[0].mutable_data<float>())
      e = up(relative < 0.25 ? static_cast<double>(e) / (1 - relative) : kInfinity);
  }
  return true;
}

CarriedValues::Value CarriedValues::quantized(const Layer& layer, const Tensor* error,
                                              Tensor mid) const {
  Value value;
  const std::vector<InferInput> known = [&] {
    std::vector<InferInput> in;
    for (const Tensor& t : layer.inputs)
      in.push_back(t ? InferInput{t.type(), &t, true} : InferInput{});
    return in;
  }();
  const QuantizeGeometry g =
      quantize_geometry(layer.params.as<QuantizeParams>(), InferInputs(known));
  value.error = Tensor::zeros(DType::f32, mid.shape());
  auto steps = value.error.mutable_data<float>();
  constexpr double kU = 0x1p-24;
  for (std::int64_t i = 0; i < mid.numel(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    const double e = error == nullptr ? 0 : static_cast<double>(error->data<float>()[at]);
    const double scale = abs_of(load_as_double(layer.inputs[1], g.scale_index(i)));
    if (layer.op->name == "dequantize_linear") {
      const double m = abs_of(load_as_double(mid, i));
      // e steps, and the roundings of both sides of (q - zero) * scale.
      steps[at] = up(e * scale * (1 + 4 * kU) + 2 * kU * (m + e * scale));
      continue;
    }
    // The quotient may be a product with a rounded reciprocal: two roundings and its own.
    const double x = load_as_double(layer.inputs[0], i);
    const double q = x / scale, room = e / scale * (1 + 4 * kU) + 3 * kU * abs_of(q);
    steps[at] = up(std::nearbyint(q + room) - std::nearbyint(q - room));
  }
  value.mid = std::move(mid);
  value.known = true;
  return value;
}

void CarriedValues::step(const Node& node, const Theirs& theirs) {
  for (const ValueId v : node.outputs)
    if (v != kAbsent) values_[v] = Value{};
  if (is_control(*node.op)) return control(node, theirs);
  Layer layer{node.op, node.params, {}};
  std::vector<Value> inputs;
  for (const ValueId v : node.inputs) {
    inputs.push_back(v == kAbsent ? Value{} : value_of(v, theirs));
    if (v != kAbsent && !inputs.back().known) return;
    layer.inputs.push_back(inputs.back().mid ? inputs.back().mid.share() : Tensor());
  }
  std::vector<const Tensor*> errors;
  for (const Value& in : inputs) errors.push_back(in.error ? &in.error : nullptr);
  try {
    std::vector<Tensor> out = eval_.bits(layer, contract_);
    const std::string_view op = node.op->name;
    const auto keep = [&](std::size_t o, Value value) {
      if (o < node.outputs.size() && node.outputs[o] != kAbsent)
        values_[node.outputs[o]] = std::move(value);
    };
    if (op == "quantize_linear" || op == "dequantize_linear") {
      if (errors.size() > 1 && errors[1] != nullptr) return;
      keep(0, quantized(layer, errors[0], std::move(out[0])));
      return;
    }
    const bool uncertain = !among(kShapes, op) && std::ranges::any_of(errors, [](const Tensor* e) {
      return e != nullptr;
    });
    std::vector<Tensor> spread;
    if (uncertain && !majorant(node, layer, errors, out[0], spread)) return;
    const auto is_integer = [](const Tensor& t) { return !t || !is_floating(t.dtype()); };
    // Integers that are certain stay so; others may wrap around, which no majorant knows.
    const bool counts = !uncertain && std::ranges::all_of(layer.inputs, is_integer) &&
                        std::ranges::all_of(out, is_integer);
    const bool rounds =
        eval_.has_definition(layer) && node.op->nature != OpNature::movement && !counts;
    std::vector<OutputBound> bounds;
    std::int64_t terms = 0;
    // Sizes say what f32 can do, rounded to nearest.
    const bool plain = contract_.acc == DType::f32 && contract_.round == Round::nearest_even &&
                       contract_.subnormals == Subnormals::keep;
    const std::optional<Tensor> sizes =
        plain ? product_sizes(eval_, layer, terms) : std::optional<Tensor>();
    if (rounds && !sizes) {
      AnyOrderModel model = AnyOrderModel::of(contract_);
      if (library_ != nullptr) model.functions = library_->of(node.op->name);
      bounds = eval_.bounds(layer, contract_, model,
                            sample_slices(eval_.slices(layer, contract_), std::int64_t{1} << 40));
    }
    for (std::size_t o = 0; o < out.size(); ++o) {
      if (uncertain && o >= spread.size()) return;
      Value next;
      next.known = true;
      next.mid = std::move(out[o]);
      const bool floats = next.mid.dtype() == DType::f32;
      if (!floats && rounds) return;
      if (uncertain || (rounds && floats)) {
        next.error = uncertain ? std::move(spread[o]) : Tensor::zeros(DType::f32, next.mid.shape());
        auto error = next.error.mutable_data<float>();
        const double relative = static_cast<double>(terms) * 0x1p-24,
                     room = relative < 0.25 ? 1 / (1 - relative) : kInfinity;
        if (sizes && o == 0)
          for (std::size_t i = 0; i < error.size(); ++i)
            error[i] =
                up((static_cast<double>(error[i]) * room +
                    2 * relative * room * room * static_cast<double>(sizes->data<float>()[i]) +
                    static_cast<double>(terms) * 0x1p-148) *
                   (1 + 0x1p-8));
        for (const OutputBound& b : bounds) {
          if (b.output != static_cast<int>(o)) continue;
          const auto i = static_cast<std::size_t>(b.index);
          const double mid = static_cast<double>(next.mid.data<float>()[i]);
          error[i] =
              up((b.bound + static_cast<double>(error[i])) * (1 + 0x1p-8) + abs_of(mid - b.real));
        }
      }
      keep(o, std::move(next));
    }
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
  bool outside = false;
  double bound2 = 0, size2 = 0;
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double m = load_as_double(v.mid, i), b = v.error ? load_as_double(v.error, i) : 0;
    if (!(b < kInfinity)) {  // something may overflow: in one order and not in another
      ++j.no_statement;
      continue;
    }
    const double y = load_as_double(got, i), r = abs_of(y - m);
    if (!is_finite(y) || !is_finite(m)) {
      outside |= y != m && !(is_nan(y) && is_nan(m));
      continue;
    }
    outside |= r > b;
    if (r > 0) j.bound_used = std::max(j.bound_used, b > 0 ? r / b : kInfinity);
    if (is_floating(got.dtype())) j.bound_ulp = std::max(j.bound_ulp, b / ulp_of(m, got.dtype()));
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
    j.cause = fmt::format("the bits of contract {}, through layers that are not shown", j.contract);
    j.sentence = fmt::format("Right: every bit is the one that contract {} defines.", j.contract);
  } else if (j.no_statement > 0 || bound2 > size2) {
    j.verdict = Verdict::undecided;
    j.cause = fmt::format(
        "the bound carried through the layers before it is too wide for a statement ({:.2g} times "
        "the values)",
        bound2 < kInfinity && size2 > 0 ? std::sqrt(bound2 / size2) : kInfinity);
    j.sentence = fmt::format("No statement can be made: {}.", j.cause);
  } else {
    j.verdict = Verdict::explained;
    j.cause = "other orders of summation, in several layers (carried bound)";
    j.sentence = fmt::format(
        "Right, as far as can be told: {:.2g} % of what rounding in the layers before it can "
        "cause.",
        100 * j.bound_used);
  }
  return j;
}

}  // namespace etalon
