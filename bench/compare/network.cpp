#include "bench/compare/network.h"

#include <algorithm>
#include <cmath>

#include "bench/compare/carried.h"
#include "engine/core/philox.h"
#include "engine/core/threads.h"
#include "engine/numerics/element.h"

namespace etalon {
namespace {

using Values = std::map<ValueId, Tensor>;

class Draws {
 public:
  Draws(const Graph& graph, const Values& given, const NetworkOptions& options)
      : graph_(graph),
        given_(given),
        options_(options),
        eval_(*options.registry, options.threads, options.isa) {
    reference_ = pass(0);
  }

  const Tensor& reference(ValueId v) const { return reference_.at(v); }

  // Root mean square of what the draws leave at each element.
  std::map<ValueId, std::vector<double>> spread(const std::vector<ValueId>& of) {
    std::map<ValueId, std::vector<double>> sum;
    for (int r = 1; r <= options_.draws; ++r) {
      const Values drawn = pass(static_cast<std::uint64_t>(r));
      for (const ValueId v : of) {
        const Tensor &a = drawn.at(v), &b = reference_.at(v);
        auto& s = sum[v];
        s.resize(static_cast<std::size_t>(b.numel()), 0.0);
        if (a.numel() != b.numel()) continue;
        for (std::int64_t i = 0; i < b.numel(); ++i) {
          const double d = load_as_double(a, i) - load_as_double(b, i);
          s[static_cast<std::size_t>(i)] += d * d / options_.draws;
        }
      }
    }
    for (auto& [v, s] : sum)
      for (double& x : s) x = std::sqrt(x);
    return sum;
  }
  bool without_bound() const { return without_bound_; }

 private:
  // Run 0 is the reference itself, which finds the sizes of the errors.
  Values pass(std::uint64_t run) {
    Values values;
    for (const auto& [v, t] : given_) values.emplace(v, t.share());
    for (std::size_t n = 0; n < graph_.nodes.size(); ++n) {
      check_interrupt();
      const Node& node = graph_.nodes[n];
      Layer layer{node.op, node.params, {}};
      for (const ValueId v : node.inputs)
        layer.inputs.push_back(v == kAbsent ? Tensor() : values.at(v).share());
      std::vector<Tensor> out = eval_.bits(layer, options_.contract);
      if (run == 0) find_sizes(n, layer, out);
      for (std::size_t o = 0; o < out.size() && o < node.outputs.size(); ++o) {
        if (run > 0) disturb(n, o, run, out[o]);
        if (node.outputs[o] != kAbsent) values[node.outputs[o]] = std::move(out[o]);
      }
      drop_dead(n, values);
    }
    return values;
  }

  // Values that no later node reads, and that are no outputs, are let go.
  void drop_dead(std::size_t n, Values& values) {
    if (last_use_.empty())
      for (std::size_t k = 0; k < graph_.nodes.size(); ++k)
        for (const ValueId v : graph_.nodes[k].inputs) last_use_[v] = k;
    for (const ValueId v : graph_.nodes[n].inputs) {
      if (v == kAbsent || last_use_[v] != n) continue;
      if (std::ranges::none_of(graph_.outputs, [&](const Declaration& d) { return d.value == v; }))
        values.erase(v);
    }
  }

  void find_sizes(std::size_t n, const Layer& layer, const std::vector<Tensor>& out) {
    auto& sizes = sigma_[n];
    sizes.resize(out.size());
    if (!eval_.has_definition(layer) || layer.op->nature == OpNature::movement) return;
    std::int64_t terms = 0;
    if (const auto sums = product_sizes(eval_, layer, terms)) {
      sizes[0] = sums->clone();
      const auto unit = static_cast<float>(std::sqrt(static_cast<double>(terms)) * 0x1p-24);
      for (float& s : sizes[0].mutable_data<float>()) s *= unit;
      return;
    }
    for (std::size_t o = 0; o < out.size(); ++o)
      if (out[o].dtype() == DType::f32) sizes[o] = Tensor::zeros(DType::f32, out[o].shape());
    const auto bounds = eval_.bounds(
        layer, options_.contract,
        {.acc = options_.contract.acc,
         .lambda = 1,
         .functions = options_.library == nullptr ? nullptr : options_.library->of(layer.op->name)},
        sample_slices(eval_.slices(layer, options_.contract), std::int64_t{1} << 40));
    for (const OutputBound& b : bounds) {
      const auto o = static_cast<std::size_t>(b.output);
      if (!sizes[o]) continue;
      if (b.bound < kInfinity)
        sizes[o].mutable_data<float>()[static_cast<std::size_t>(b.index)] =
            static_cast<float>(b.bound);
      else
        without_bound_ = true;
    }
  }

  // Uniform of variance 1, times sigma.
  void disturb(std::size_t n, std::size_t o, std::uint64_t run, Tensor& out) const {
    const Tensor& sigma = sigma_.at(n)[o];
    if (!sigma || out.dtype() != DType::f32 || out.numel() != sigma.numel()) return;
    const Philox random{run, n * 16 + o};
    auto y = out.mutable_data<float>();
    const auto s = sigma.data<float>();
    constexpr float kRoot3 = 1.7320508F;
    for (std::size_t i = 0; i < y.size(); ++i)
      if (std::isfinite(y[i])) y[i] += kRoot3 * random.uniform(i) * s[i];
  }

  const Graph& graph_;
  const Values& given_;
  const NetworkOptions& options_;
  LayerEvaluator eval_;
  std::map<ValueId, std::size_t> last_use_;
  std::map<std::size_t, std::vector<Tensor>> sigma_;
  Values reference_;
  bool without_bound_ = false;
};

double rms(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return x.empty() ? 0 : std::sqrt(sum / static_cast<double>(x.size()));
}

void judge_by_draws(NetworkJudgement& n, const Tensor& got, const Tensor& ours,
                    const std::vector<double>& spread, const NetworkOptions& options) {
  Judgement& j = n.judgement;
  if (!is_floating(got.dtype()) || !(got.type() == ours.type()) || j.stats.non_finite() > 0) return;
  std::vector<double> difference, size;
  for (std::int64_t i = 0; i < got.numel(); ++i) {
    const double y = load_as_double(ours, i);
    if (!is_finite(y)) continue;
    difference.push_back(load_as_double(got, i) - y);
    size.push_back(y);
  }
  const bool bounded = j.verdict == Verdict::explained;
  const double most = spread.empty() ? 0 : *std::ranges::max_element(spread);
  double farthest = 0;
  for (const double d : difference) farthest = std::max(farthest, abs_of(d));
  j.likely_used = rms(spread) > 0 ? rms(difference) / (options.lambda * rms(spread)) : kInfinity;
  const std::string draws = fmt::format(
      "the difference is {:.2g} of {:g} times what {} draws of roundings in every "
      "layer leave at the output",
      j.likely_used, options.lambda, options.draws);
  if (!bounded && options.lambda * rms(spread) > rms(size)) {
    j.cause = "what rounding may leave at the output is larger than the output itself";
  } else if (j.likely_used <= 1 && farthest <= options.lambda * most) {
    if (bounded) {
      j.cause += "; " + draws;
      return;
    }
    n.way = "draws";
    j.verdict = Verdict::explained;
    j.cause = fmt::format("roundings in every layer (carried, by draws): {}", draws);
    j.sentence = fmt::format("Right, as far as final outputs can tell: {}.", draws);
    return;
  } else {
    j.cause =
        fmt::format("{}beyond what roundings of independent sign leave: {}{}",
                    bounded ? "inside the carried bound, but " : "", draws,
                    j.likely_used > 1 ? "" : ", and an element is farther off than any draw's");
  }
  n.way = "";
  j.verdict = Verdict::undecided;
  j.sentence = fmt::format("No statement can be made: {}.", j.cause);
}

}  // namespace

std::vector<NetworkJudgement> judge_network(
    const Graph& graph, const std::map<std::string, Tensor, std::less<>>& inputs,
    const std::map<std::string, Tensor, std::less<>>& got, const NetworkOptions& options) {
  Values given;
  for (const auto& [v, t] : graph.initializers) given.emplace(v, t.share());
  for (const Declaration& d : graph.inputs) {
    const auto at = inputs.find(graph.value_name(d.value));
    if (at != inputs.end())
      given.insert_or_assign(d.value, at->second.share());
    else if (!given.contains(d.value))
      throw bad_input("the input {} is not given", graph.value_name(d.value));
  }
  CarriedValues carried(graph, *options.registry, options.contract, options.threads, options.isa,
                        options.library);
  for (const Node& node : graph.nodes) {
    check_interrupt();
    carried.step(node, [&](ValueId v) -> const Tensor* {
      const auto at = given.find(v);
      return at == given.end() ? nullptr : &at->second;
    });
  }
  std::vector<NetworkJudgement> list;
  std::vector<ValueId> open;
  for (const Declaration& d : graph.outputs) {
    const auto at = got.find(graph.value_name(d.value));
    if (at == got.end()) continue;
    NetworkJudgement n{graph.value_name(d.value), carried.judge(d.value, at->second), "", ""};
    n.bound = n.judgement.cause;
    const Verdict verdict = n.judgement.verdict;
    if (verdict == Verdict::identical) n.way = "bits";
    if (verdict == Verdict::explained || verdict == Verdict::wrong) n.way = "bound";
    if (verdict == Verdict::explained || verdict == Verdict::undecided) open.push_back(d.value);
    list.push_back(std::move(n));
  }
  if (open.empty()) return list;
  Draws draws(graph, given, options);
  const auto spread = draws.spread(open);
  for (NetworkJudgement& n : list) {
    const ValueId v = graph.find_value(n.name);
    if (std::ranges::find(open, v) == open.end()) continue;
    const Tensor &theirs = got.at(n.name), &ours = draws.reference(v);
    Judgement& j = n.judgement;
    if (!(theirs.type() == ours.type())) {
      j.verdict = Verdict::wrong;
      j.cause = fmt::format("the output is {}, expected {}", to_string(theirs.type()),
                            to_string(ours.type()));
      j.sentence = "Wrong: the output does not have the type and shape that it must have.";
      continue;
    }
    j.stats = error_stats(theirs, ours, Tensor());
    j.bits_equal = static_cast<double>(bits_equal(theirs, ours)) /
                   std::max<double>(1, static_cast<double>(theirs.numel()));
    if (j.bits_equal == 1) {  // where no value of the chain was known to the bound
      n.way = "bits";
      j.verdict = Verdict::identical;
      j.cause = fmt::format("the bits of contract {}", short_name(options.contract));
      j.sentence = fmt::format("Right: every bit is the one that contract {} defines.",
                               short_name(options.contract));
    } else if (draws.without_bound() && n.way != "bound") {
      j.cause = "a layer has no bound, so that no size can be drawn for its errors";
      j.sentence = fmt::format("No statement can be made: {}.", j.cause);
    } else {
      judge_by_draws(n, theirs, ours, spread.at(v), options);
    }
  }
  return list;
}

}  // namespace etalon
