#include "bench/compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/compare/hypotheses.h"
#include "bench/compare/param_fields.h"
#include "engine/numerics/element.h"

namespace etalon {
namespace {

constexpr std::string_view kNames[] = {"identical", "explained", "lower precision", "undecided",
                                       "wrong"};
// Terms beyond which single outputs are no longer held against the probabilistic bound.
constexpr std::int64_t kRmsTerms = 10'000;

// One output element of the sample.
struct Point {
  std::int64_t index = 0, terms = 1;
  double got = 0, real = 0, bound = 0, likely = 0;
  double residual() const { return got - real; }
  bool finite() const { return is_finite(got) && is_finite(real); }
  // A mismatch of infinities or NaN that the bound does not excuse.
  bool non_finite_mismatch() const {
    if (finite()) return false;
    if (is_nan(got) && is_nan(real)) return false;
    return got != real && bound < kInfinity;
  }
  bool outside() const { return non_finite_mismatch() || (finite() && abs_of(residual()) > bound); }
};

std::vector<Point> points_of(int output, const Tensor& got,
                             const std::vector<OutputBound>& rigorous,
                             const std::vector<OutputBound>& likely) {
  std::vector<Point> points;
  for (std::size_t i = 0; i < rigorous.size(); ++i) {
    if (rigorous[i].output != output) continue;
    points.push_back({rigorous[i].index, rigorous[i].terms, load_as_double(got, rigorous[i].index),
                      rigorous[i].real, rigorous[i].bound, likely[i].bound});
  }
  return points;
}

struct Fit {
  bool within = false;  // of the probabilistic bound
  double energy = 0;    // sum of (residual / likely)^2
  double used = 0;      // largest |residual| / likely
};

// `weight` gives each point's scale, so that energies under different hypotheses compare.
Fit fit_of(const std::vector<Point>& points, const std::vector<Point>& weight, double lambda) {
  Fit fit{.within = true};
  double residual2 = 0, likely2 = 0;
  bool many_terms = false;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Point& p = points[i];
    if (p.non_finite_mismatch()) {
      fit.within = false;
      fit.used = kInfinity;
      fit.energy += 1e12;
      continue;
    }
    if (!p.finite() || !(p.likely < kInfinity)) continue;
    many_terms |= p.terms > kRmsTerms;
    const double r = abs_of(p.residual());
    residual2 += r * r;
    likely2 += p.likely * p.likely / (lambda * lambda);
    if (r > 0) fit.used = std::max(fit.used, p.likely > 0 ? r / p.likely : kInfinity);
    const double w = weight[i].likely;
    if (r > 0) fit.energy += w > 0 && w < kInfinity ? (r / w) * (r / w) : 1e12;
  }
  if (many_terms)
    fit.within = fit.within && residual2 <= likely2;
  else
    fit.within = fit.within && fit.used <= 1;
  return fit;
}

std::string ulps(double x) {
  if (x == kInfinity) return "infinitely many";
  return x < 10 ? fmt::format("{:.2g}", x) : fmt::format("{:.0f}", x);
}

// Everything of one layer that does not depend on which output is judged.
class Judge {
 public:
  Judge(const Layer& layer, const std::vector<Tensor>& got, const JudgeOptions& options)
      : layer_(layer),
        got_(got),
        options_(options),
        eval_(*options.registry, options.threads, options.isa) {}

  std::vector<Judgement> run() {
    const std::vector<TensorType> types = eval_.output_types(layer_);
    results_.resize(types.size());
    bool any = false;
    for (std::size_t o = 0; o < types.size(); ++o) {
      Judgement& j = results_[o];
      j.contract = short_name(options_.contract);
      if (!given(o)) {
        j.cause = "the output was not given";
        j.sentence = "Not compared: the output is not there.";
        continue;
      }
      j.elements = got_[o].numel();
      if (!(got_[o].type() == types[o])) {
        j.verdict = Verdict::wrong;
        j.cause = fmt::format("the output is {}, expected {}", to_string(got_[o].type()),
                              to_string(types[o]));
        j.sentence = "Wrong: the output does not have the type and shape that it must have.";
        continue;
      }
      any = true;
      open_.push_back(o);
    }
    if (!any) return std::move(results_);
    if (!eval_.has_definition(layer_) || layer_.op->nature == OpNature::movement) {
      judge_by_bits();
      return std::move(results_);
    }
    take_sample();
    find_contract();
    for (const std::size_t o : open_) judge_output(o);
    return std::move(results_);
  }

 private:
  bool given(std::size_t o) const { return o < got_.size() && got_[o]; }

  // Ops that copy or compare: equal or not.
  void judge_by_bits() {
    const std::vector<Tensor> ours = eval_.bits(layer_, options_.contract);
    for (const std::size_t o : open_) {
      Judgement& j = results_[o];
      j.stats = error_stats(got_[o], ours[o], Tensor());
      const std::int64_t equal = bits_equal(got_[o], ours[o]);
      j.bits_equal = share(equal, j.elements);
      if (equal == j.elements) {
        identical(j, j.contract);
        continue;
      }
      if (layer_.op->nature != OpNature::movement && layer_.op->nature != OpNature::discrete &&
          is_floating(got_[o].dtype())) {
        judge_without_bound(j, o);
        continue;
      }
      j.verdict = Verdict::wrong;
      j.cause = options_.known_cause;
      for (const Hypothesis& h : hypotheses_for(layer_)) {
        if (!j.cause.empty()) break;
        try {
          const auto replay = eval_.bits(h.layer, options_.contract);
          if (o < replay.size() && replay[o].type() == got_[o].type() &&
              bits_equal(got_[o], replay[o]) == j.elements)
            j.cause = h.cause;
        } catch (const Error&) {
        }
      }
      j.sentence = fmt::format("Wrong: {} of {} elements are not the ones that belong there{}.",
                               j.elements - equal, j.elements,
                               j.cause.empty() ? "" : ", because " + j.cause);
    }
  }

  // Floating outputs of an op whose definition runs in steps (recurrent cells): there is no bound,
  // so nothing can be explained, but a replay that removes all but 10^-4 of the residual's energy
  // (10^(-18/N) for few outputs) names the fault.
  void judge_without_bound(Judgement& j, std::size_t o) {
    const LayerEvaluator::Truth truth = eval_.truth(layer_);
    j.stats = error_stats(got_[o], truth.rounded[o], truth.exact[o]);
    const std::string& known = options_.known_cause;
    const double plain = energy(got_[o], truth.exact[o]);
    const double rho = std::min(
        1e-4, std::pow(10.0, -18.0 / std::max<double>(1, static_cast<double>(j.elements))));
    double best = rho * plain;
    for (const Hypothesis& h : hypotheses_for(layer_)) {
      if (h.flush_outputs || j.elements < 4) continue;
      try {
        const LayerEvaluator::Truth replay = eval_.truth(h.layer);
        if (o >= replay.exact.size() || !(replay.rounded[o].type() == got_[o].type())) continue;
        const double e = energy(got_[o], replay.exact[o]);
        if (!(e < best)) continue;
        best = e;
        j.cause = h.cause;
        j.verdict = h.verdict;
      } catch (const Error&) {
        // The changed layer does not exist.
      }
    }
    if (!j.cause.empty()) {
      conclude(j, known.empty() ? j.verdict : Verdict::wrong,
               known.empty() ? std::string(j.cause) : j.cause + "; " + known);
    } else if (!known.empty()) {
      conclude(j, Verdict::wrong, known);
    } else if (j.stats.non_finite() > 0) {
      conclude(j, Verdict::wrong, "infinities or NaN where numbers belong, or the other way round");
    } else {
      conclude(j, Verdict::undecided,
               fmt::format("{} is computed in rounded steps, for which there is no bound; the "
                           "largest error is {} ULP, and no known fault explains it",
                           layer_.op->name, ulps(j.stats.max_ulp)));
    }
  }
  static double energy(const Tensor& got, const Tensor& exact) {
    double e = 0;
    for (std::int64_t i = 0; i < got.numel(); ++i) {
      const double r = load_as_double(got, i) - load_as_double(exact, i);
      e += is_finite(r)
               ? r * r
               : (is_nan(load_as_double(got, i)) && is_nan(load_as_double(exact, i)) ? 0 : 1e300);
    }
    return e;
  }

  static double share(std::int64_t part, std::int64_t whole) {
    return whole == 0 ? 1 : static_cast<double>(part) / static_cast<double>(whole);
  }

  void take_sample() {
    const std::int64_t slices = eval_.slices(layer_, options_.contract);
    slices_ = slices;
    model_ = {.acc = options_.contract.acc, .functions = options_.functions};
    // The cost of a slice, from a few of them.
    const auto first = eval_.bounds(layer_, options_.contract, model_, sample_slices(slices, 8));
    std::int64_t terms = 1, outputs = 1;
    for (const OutputBound& b : first) terms = std::max(terms, b.terms);
    outputs =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(first.size()) /
                                      std::min<std::int64_t>(8, std::max<std::int64_t>(1, slices)));
    terms_ = terms;
    const std::int64_t per_slice = terms * outputs;
    const std::int64_t limit =
        std::clamp<std::int64_t>(options_.term_budget / per_slice, 64, 1 << 22);
    sample_ = sample_slices(slices, limit);
    sampled_ = slices > limit;
    const std::int64_t few =
        std::clamp<std::int64_t>(options_.term_budget / 8 / per_slice, 64, 1024);
    hypothesis_sample_ = sample_slices(slices, few);
    if (eval_.is_fast(layer_, options_.contract)) add_outliers(slices);
    rigorous_ = eval_.bounds(layer_, options_.contract, model_, sample_);
    likely_ = eval_.bounds(layer_, options_.contract, likely_model(), sample_);
    if (sampled_ && !eval_.truth_is_fast(layer_)) {
      truth_ = eval_.truth(layer_, sample_);
    } else {
      truth_ = eval_.truth(layer_);
    }
    // Outputs that the sample shows farthest out belong among those that hypotheses must explain.
    for (const std::size_t o : open_) add_worst(o, slices);
    hypothesis_likely_ =
        eval_.bounds(layer_, options_.contract, likely_model(), hypothesis_sample_);
    hypothesis_rigorous_ = eval_.bounds(layer_, options_.contract, model_, hypothesis_sample_);
  }

  AnyOrderModel likely_model() const {
    AnyOrderModel m = model_;
    m.lambda = options_.lambda;
    return m;
  }

  // A sample could miss a fault in few outputs (a border): where the contract's bits are cheap, the
  // outputs farthest from them are looked at too.
  void add_outliers(std::int64_t slices) {
    const std::vector<Tensor> ours = eval_.bits(layer_, options_.contract);
    for (const std::size_t o : open_) {
      if (!is_floating(got_[o].dtype())) continue;
      std::vector<std::pair<double, std::int64_t>> far;
      for (std::int64_t i = 0; i < got_[o].numel(); ++i) {
        const double d =
            error_in_ulp(load_as_double(got_[o], i), load_as_double(ours[o], i), got_[o].dtype());
        if (d > 0) far.emplace_back(-d, i);
      }
      const auto n = std::min<std::size_t>(far.size(), 64);
      std::ranges::partial_sort(far, far.begin() + static_cast<std::ptrdiff_t>(n));
      for (std::size_t i = 0; i < n; ++i) add_slice(sample_, far[i].second, o, slices);
    }
  }
  // Slices are cut along the output's order: the slice of an element follows from its position.
  void add_slice(std::vector<std::int64_t>& to, std::int64_t index, std::size_t o,
                 std::int64_t slices) const {
    const std::int64_t per =
        std::max<std::int64_t>(1, got_[o].numel() / std::max<std::int64_t>(1, slices));
    const std::int64_t slice = std::min(index / per, slices - 1);
    const auto at = std::ranges::lower_bound(to, slice);
    if (at == to.end() || *at != slice) to.insert(at, slice);
  }
  void add_worst(std::size_t o, std::int64_t slices) {
    std::vector<Point> points = points_of(static_cast<int>(o), got_[o], rigorous_, likely_);
    const auto badness = [](const Point& p) {
      if (p.non_finite_mismatch()) return -kInfinity;
      if (!p.finite()) return 0.0;
      return p.likely > 0 ? -abs_of(p.residual()) / p.likely : (p.residual() != 0 ? -1e300 : 0.0);
    };
    const auto n = static_cast<std::ptrdiff_t>(std::min<std::size_t>(points.size(), 32));
    std::ranges::partial_sort(points, points.begin() + n, {}, badness);
    for (std::ptrdiff_t i = 0; i < n; ++i)
      if (badness(points[static_cast<std::size_t>(i)]) < 0)
        add_slice(hypothesis_sample_, points[static_cast<std::size_t>(i)].index, o, slices);
  }

  // Looks for a contract with the same bits: first in the small sample, then in every output.
  void find_contract() {
    const std::vector<std::int64_t> probe(
        hypothesis_sample_.begin(),
        hypothesis_sample_.begin() +
            static_cast<std::ptrdiff_t>(std::min<std::size_t>(4, hypothesis_sample_.size())));
    std::vector<Contract> contracts = {options_.contract};
    for (const Contract& c : usual_contracts(layer_, terms_))
      if (!(c == options_.contract)) contracts.push_back(c);
    for (const Contract& c : contracts) {
      try {
        const bool main = c == options_.contract;
        if (!main && (!fits(c, probe) || !fits(c, hypothesis_sample_))) continue;
        const bool all = eval_.is_fast(layer_, c) || !sampled_;
        const std::vector<Tensor> many =
            all ? eval_.bits(layer_, c) : eval_.bits(layer_, c, sample_);
        bool equal = true;
        for (const std::size_t o : open_) {
          std::int64_t same = 0, count = got_[o].numel();
          if (all) {
            same = bits_equal(got_[o], many[o]);
          } else {
            count = 0;
            for (const OutputBound& b : likely_)
              if (b.output == static_cast<int>(o)) {
                ++count;
                if (same_bits(got_[o], many[o], b.index)) ++same;
              }
          }
          if (main) results_[o].bits_equal = share(same, count);
          equal = equal && same == count;
        }
        if (equal) {
          contract_ = c;
          return;
        }
      } catch (const Error&) {
        // The contract does not fit this layer (a block list of another length): not its bits.
      }
    }
  }
  static bool same_bits(const Tensor& a, const Tensor& b, std::int64_t i) {
    const auto size = static_cast<std::size_t>(size_bytes(a.dtype()));
    return std::memcmp(a.bytes().data() + static_cast<std::size_t>(i) * size,
                       b.bytes().data() + static_cast<std::size_t>(i) * size, size) == 0;
  }
  // Whether the outputs of these slices have the contract's bits.
  bool fits(const Contract& c, const std::vector<std::int64_t>& slices) const {
    const std::vector<Tensor> ours = eval_.bits(layer_, c, slices);
    for (const OutputBound& b : eval_.bounds(layer_, c, model_, slices)) {
      const auto o = static_cast<std::size_t>(b.output);
      if (std::ranges::find(open_, o) != open_.end() && !same_bits(got_[o], ours[o], b.index))
        return false;
    }
    return true;
  }

  void identical(Judgement& j, const std::string& contract) const {
    j.verdict = Verdict::identical;
    j.cause = fmt::format("the bits of contract {}", contract);
    j.sentence = fmt::format("Right: every bit is the one that contract {} defines.", contract);
  }

  void judge_output(std::size_t o) {
    Judgement& j = results_[o];
    const std::vector<Point> points = points_of(static_cast<int>(o), got_[o], rigorous_, likely_);
    fill_stats(j, o, points);
    if (contract_) {
      identical(j, short_name(*contract_));
      j.contract = short_name(*contract_);
      j.bits_equal = 1;
      if (sampled_ && !eval_.is_fast(layer_, *contract_))
        j.cause += fmt::format(" ({} of {} elements looked at)", points.size(), j.elements);
      return;
    }
    if (!is_floating(got_[o].dtype())) {
      judge_integers(j, o);
      return;
    }
    judge_floats(j, o, points);
  }

  void fill_stats(Judgement& j, std::size_t o, const std::vector<Point>& points) const {
    std::vector<TruthPair> pairs;
    const DType dtype = got_[o].dtype();
    for (const Point& p : points) {
      const double rounded = load_as_double(truth_.rounded[o], p.index);
      const double exact = truth_.exact[o] ? load_as_double(truth_.exact[o], p.index) : rounded;
      pairs.push_back({p.index, rounded, exact});
      j.terms = std::max(j.terms, p.terms);
      if (!is_floating(dtype)) continue;
      if (!(p.bound < kInfinity)) {
        ++j.no_statement;
        continue;
      }
      if (!p.finite()) continue;
      j.bound_ulp = std::max(j.bound_ulp, p.bound / ulp_of(exact, dtype));
      const double r = abs_of(p.residual());
      if (r > 0) {
        j.bound_used = std::max(j.bound_used, p.bound > 0 ? r / p.bound : kInfinity);
        j.likely_used = std::max(j.likely_used, p.likely > 0 ? r / p.likely : kInfinity);
      }
    }
    j.stats = error_stats(got_[o], pairs);
  }

  void judge_integers(Judgement& j, std::size_t o) {
    if (j.stats.different == 0) {
      identical(j, "exact");
      return;
    }
    j.verdict = Verdict::wrong;
    j.cause = options_.known_cause;
    for (const Hypothesis& h : hypotheses_for(layer_)) {
      if (!j.cause.empty()) break;
      try {
        const auto replay = eval_.bits(h.layer, options_.contract);
        if (o < replay.size() && replay[o].type() == got_[o].type() &&
            bits_equal(replay[o], got_[o]) == got_[o].numel())
          j.cause = h.cause;
      } catch (const Error&) {
      }
    }
    j.sentence = fmt::format("Wrong: {} of {} integers differ{}.", j.stats.different,
                             j.stats.elements, j.cause.empty() ? "" : ", because " + j.cause);
  }

  void judge_floats(Judgement& j, std::size_t o, const std::vector<Point>& points) {
    bool outside = false;
    double bound2 = 0, got2 = 0;
    std::int64_t open_ended = 0;
    for (const Point& p : points) {
      outside |= p.outside();
      if (!(p.bound < kInfinity)) {
        const double rounded = load_as_double(truth_.rounded[o], p.index);
        if (!(p.got == rounded || (is_nan(p.got) && is_nan(rounded)))) ++open_ended;
      } else if (p.finite()) {
        bound2 += p.bound * p.bound;
        got2 += p.real * p.real;
      }
    }
    const Fit plain = fit_of(points, points, options_.lambda);

    std::string cause;
    Verdict verdict = Verdict::wrong;
    const std::string& known = options_.known_cause;
    if (explain(o, cause, verdict)) {
      conclude(j, known.empty() ? verdict : Verdict::wrong,
               known.empty() ? cause : cause + "; " + known);
      return;
    }
    if (!known.empty()) {
      conclude(j, Verdict::wrong, known);
      return;
    }
    if (outside) {
      if (stored_narrower(o, cause)) {
        conclude(j, Verdict::lower_precision, cause);
      } else {
        conclude(j, Verdict::wrong,
                 "outside the bound of every order of summation, and no known fault explains it");
      }
      return;
    }
    if (open_ended > 0) {
      conclude(j, Verdict::undecided,
               fmt::format("{} elements have no finite bound: the sum is too long for its format, "
                           "or something may overflow",
                           open_ended));
    } else if (bound2 > got2 && !points.empty()) {
      conclude(j, Verdict::undecided,
               "the bound is larger than the outputs: the data cancels too much for a statement");
    } else if (!plain.within) {
      conclude(j, Verdict::undecided,
               fmt::format("inside the bound of any order, but {:.3g} times what rounding errors "
                           "of independent sign leave",
                           plain.used));
    } else {
      conclude(j, Verdict::explained, "another order of summation, fused or not");
      if (layer_.op->nature == OpNature::pointwise)
        j.cause = "rounding, within the accuracy of the library's functions";
    }
  }

  // Tries every hypothesis on the small sample; true when one is named.
  bool explain(std::size_t o, std::string& cause, Verdict& verdict) {
    const std::vector<Point> plain_points =
        points_of(static_cast<int>(o), got_[o], hypothesis_rigorous_, hypothesis_likely_);
    const Fit plain = fit_of(plain_points, plain_points, options_.lambda);
    if (plain.energy == 0) return false;
    const double n = static_cast<double>(plain_points.size());
    const double rho = std::min(0.25, std::pow(10.0, -18.0 / std::max(1.0, n)));
    if (replay_contracts(o, plain_points, cause)) {
      verdict = Verdict::lower_precision;
      return true;
    }
    double best = kInfinity;
    for (const Hypothesis& h : hypotheses()) {
      try {
        const std::vector<TensorType> types = eval_.output_types(h.layer);
        if (o >= types.size() || !(types[o] == got_[o].type())) continue;
        // A changed axis makes other slices: then the sample says nothing, unless it is all of
        // them.
        std::vector<std::int64_t> slices = hypothesis_sample_;
        const std::int64_t ours = eval_.slices(layer_, options_.contract);
        if (const std::int64_t n_h = eval_.slices(h.layer, options_.contract); n_h != ours) {
          if (static_cast<std::int64_t>(slices.size()) != ours) continue;
          slices = sample_slices(n_h, n_h);
        }
        const auto likely = eval_.bounds(h.layer, options_.contract, likely_model(), slices);
        if (likely.size() != hypothesis_likely_.size()) continue;
        std::vector<Point> points = points_of(static_cast<int>(o), got_[o], likely, likely);
        if (h.flush_outputs)
          for (Point& p : points)
            if (abs_of(p.real) < smallest_normal(got_[o].dtype())) {
              p.real = 0;
              p.likely = p.bound = 0;
            }
        const Fit fit = fit_of(points, plain_points, options_.lambda);
        if (!(fit.energy < best)) continue;
        const bool fits = fit.within && fit.energy <= (plain.within ? rho : 0.5) * plain.energy;
        // What a replay leaves may be a second, far smaller difference (a folded normalisation).
        const bool dominates = fit.energy <= std::min(1e-4, rho) * plain.energy;
        if (!fits && !dominates) continue;
        best = fit.energy;
        cause = h.cause;
        verdict = h.verdict;
      } catch (const Error&) {
        // The changed layer does not exist (a padding wider than its kernel): not the cause.
      }
    }
    return best < kInfinity;
  }

  const std::vector<Hypothesis>& hypotheses() {
    if (!hypotheses_) hypotheses_ = hypotheses_for(layer_);
    return *hypotheses_;
  }

  // Narrower accumulators, bit for bit: nothing else makes 99 % of the bits of such a contract.
  bool replay_contracts(std::size_t o, const std::vector<Point>& points, std::string& cause) {
    if (layer_.op->nature != OpNature::sum || got_[o].dtype() != DType::f32) return false;
    if (points.size() < 8) return false;
    // A few slices tell most contracts off.
    std::vector<std::int64_t> probe(
        hypothesis_sample_.begin(),
        hypothesis_sample_.begin() +
            static_cast<std::ptrdiff_t>(std::min<std::size_t>(8, hypothesis_sample_.size())));
    for (const ContractReplay& replay : narrow_contracts(terms_)) {
      try {
        if (share_of_bits(o, replay.contract, probe) < 0.75) continue;
        if (share_of_bits(o, replay.contract, hypothesis_sample_) < 0.99) continue;
        cause = replay.cause;
        return true;
      } catch (const Error&) {
        // The contract does not fit this layer.
      }
    }
    return false;
  }
  double share_of_bits(std::size_t o, const Contract& c,
                       const std::vector<std::int64_t>& slices) const {
    const std::vector<Tensor> ours = eval_.bits(layer_, c, slices);
    std::int64_t same = 0, all = 0;
    for (const OutputBound& b : hypothesis_likely_)
      if (b.output == static_cast<int>(o) && in_slices(b.index, o, slices)) {
        ++all;
        if (same_bits(got_[o], ours[o], b.index)) ++same;
      }
    return share(same, all);
  }
  // Elements that the listed slices do not compute are left 0 there, which counts as unequal; this
  // leaves out those that clearly belong to other slices.
  bool in_slices(std::int64_t index, std::size_t o, const std::vector<std::int64_t>& slices) const {
    const std::int64_t per =
        std::max<std::int64_t>(1, got_[o].numel() / std::max<std::int64_t>(1, slices_));
    return std::ranges::binary_search(slices, std::min(index / per, slices_ - 1));
  }

  // All outputs (or the outputs before a bias was added) are numbers of a narrower format: f32
  // arithmetic leaves a share of 2^-13 (f16) or 2^-16 (bf16) of such numbers by chance.
  bool stored_narrower(std::size_t o, std::string& cause) const {
    if (got_[o].dtype() != DType::f32 || got_[o].numel() < 8) return false;
    const auto y = got_[o].data<float>();
    for (const DType d : {DType::bf16, DType::f16}) {
      std::size_t fits = 0, counted = 0;
      for (const float x : y) {
        if (x == 0 || !is_finite(static_cast<double>(x))) continue;
        ++counted;
        if (round_to(static_cast<double>(x), d) == static_cast<double>(x)) ++fits;
      }
      if (counted >= 8 && fits == counted) {
        cause = fmt::format("every output is a number of {}: sums are accumulated or stored in it",
                            etalon::name(d));
        return true;
      }
    }
    const std::string_view op = layer_.op->name;
    if ((op == "conv" || op == "gemm") && layer_.inputs.size() > 2 && layer_.inputs[2] &&
        layer_.inputs[2].dtype() == DType::f32) {
      const auto b = layer_.inputs[2].data<float>();
      const Shape& s = got_[o].shape();
      const auto inner = static_cast<std::size_t>(op == "conv" ? s.product(2, s.rank()) : 1);
      const auto channels = static_cast<std::size_t>(s[1]);
      if (b.size() != channels) return false;
      for (const DType d : {DType::bf16, DType::f16}) {
        std::size_t fits = 0, counted = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
          const double sum =
              static_cast<double>(y[i]) - static_cast<double>(b[i / inner % channels]);
          if (abs_of(sum) < abs_of(static_cast<double>(y[i])) * 0x1p-8) continue;
          ++counted;
          // The final addition rounded once to f32.
          if (abs_of(round_to(sum, d) - sum) <= ulp_of(static_cast<double>(y[i]), DType::f32))
            ++fits;
        }
        if (counted >= 8 && fits == counted) {
          cause = fmt::format(
              "every output less its bias is a number of {}: sums are accumulated in it",
              etalon::name(d));
          return true;
        }
      }
    }
    return false;
  }

  void conclude(Judgement& j, Verdict verdict, const std::string& cause) const {
    j.verdict = verdict;
    j.cause = cause;
    const std::string looked =
        sampled_ ? fmt::format(" ({} of {} elements looked at)", j.stats.elements, j.elements) : "";
    switch (verdict) {
      case Verdict::explained:
        j.sentence = fmt::format(
            "Right, in another order: the largest error is {} units of the last digit, {:.2g} % of "
            "what rounding can cause{}.",
            ulps(j.stats.max_ulp), 100 * j.bound_used, looked);
        break;
      case Verdict::lower_precision:
        j.sentence = fmt::format(
            "Computed less precisely than f32: {}; errors up to {} units of the last digit{}.",
            cause, ulps(j.stats.max_ulp), looked);
        break;
      case Verdict::undecided:
        j.sentence = fmt::format("No statement can be made: {}{}.", cause, looked);
        break;
      default:
        j.sentence = fmt::format("Wrong: {}; errors up to {} units of the last digit{}.", cause,
                                 ulps(j.stats.max_ulp), looked);
    }
    if (j.stats.non_finite() > 0)
      j.sentence += fmt::format(
          " {} elements are infinite or not a number where they should not "
          "be, or the other way round.",
          j.stats.non_finite());
  }

  const Layer& layer_;
  const std::vector<Tensor>& got_;
  const JudgeOptions& options_;
  LayerEvaluator eval_;
  std::vector<Judgement> results_;
  std::vector<std::size_t> open_;  // outputs still to be judged
  AnyOrderModel model_;
  std::int64_t terms_ = 1, slices_ = 1;
  bool sampled_ = false;
  std::vector<std::int64_t> sample_, hypothesis_sample_;
  std::vector<OutputBound> rigorous_, likely_, hypothesis_rigorous_, hypothesis_likely_;
  LayerEvaluator::Truth truth_;
  std::optional<Contract> contract_;
  std::optional<std::vector<Hypothesis>> hypotheses_;
};

}  // namespace

std::string_view name(Verdict verdict) { return kNames[static_cast<std::size_t>(verdict)]; }

Verdict parse_verdict(std::string_view text) {
  for (std::size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text || (text == "lower-precision" && i == 2)) return static_cast<Verdict>(i);
  throw usage_error(
      "'{}' is no verdict; they are identical, explained, lower-precision, undecided, "
      "wrong",
      text);
}

std::vector<Judgement> judge_layer(const Layer& layer, const std::vector<Tensor>& got,
                                   const JudgeOptions& options) {
  return Judge(layer, got, options).run();
}

std::vector<Contract> usual_contracts(const Layer& layer, std::int64_t terms) {
  std::vector<Contract> list;
  const auto add = [&](const std::string& text) { list.push_back(Contract::parse(text)); };
  add("seq");
  add("exact");
  if (layer.op->nature != OpNature::sum && layer.op->nature != OpNature::composite) return list;
  if (terms < 2) return list;
  std::vector<std::string> walks = {""};
  std::int64_t taps = 1;
  if (layer.op->name == "conv" && layer.inputs.size() > 1 && layer.inputs[1]) {
    const Shape& w = layer.inputs[1].shape();
    taps = w.product(2, w.rank());
    if (taps > 1 && w[1] > 1) {
      walks.emplace_back("walk=rsc,");
      for (const int c : {4, 8, 16, 32})
        if (c < w[1]) walks.push_back(fmt::format("walk=c{}rs,", c));
    }
  }
  for (const std::string& walk : walks) {
    std::vector<std::string> orders = {"seq"};
    for (const std::int64_t b : {64, 96, 128, 144, 192, 240, 256, 320, 384, 448, 512, 768, 1024})
      if (b < terms) orders.push_back(fmt::format("blocks:{}", b));
    for (const std::int64_t c : {4, 8, 16, 32})
      if (walk.find(fmt::format("c{}rs", c)) != std::string::npos && c * taps < terms)
        orders.push_back(fmt::format("blocks:{}", c * taps));
    // Packed products: full panels, and the rest in two halves (MKL, OpenBLAS).
    for (const std::int64_t panel : {256, 384, 448}) {
      std::vector<std::int64_t> blocks;
      std::int64_t rest = terms;
      for (; rest >= 2 * panel; rest -= panel) blocks.push_back(panel);
      if (rest <= panel) continue;
      blocks.push_back(rest - rest / 2);
      blocks.push_back(rest / 2);
      orders.push_back(fmt::format("blocks:{}", fmt::join(blocks, "+")));
    }
    for (const int n : {4, 8, 16, 32, 64})
      if (n < terms) orders.push_back(fmt::format("lanes:{}", n));
    for (const int n : {1, 8, 128})
      if (n < terms) orders.push_back(fmt::format("pairwise:{}", n));
    for (const int n : {2, 4})
      if (n < terms) orders.push_back(fmt::format("splitk:{}", n));
    for (const std::string& order : orders)
      for (const char* fma : {"on", "off"}) add(fmt::format("{}order={},fma={}", walk, order, fma));
  }
  return list;
}

}  // namespace etalon
