#include "bench/compare/verdict.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "bench/compare/conventions.h"
#include "bench/compare/judge.h"
#include "engine/numerics/element.h"

namespace etalon {

namespace {

constexpr std::string_view kNames[] = {"identical", "explained", "lower precision", "undecided",
                                       "wrong"};

constexpr std::string_view kSameNumbers =
    "the same numbers; only the bits of NaN or a zero's sign differ";

std::string ulps(double x) {
  if (x == kInfinity) return "infinitely many";
  return x < 10 ? fmt::format("{:.2g}", x) : fmt::format("{:.0f}", x);
}

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
  std::vector<Judgement> judged = Judge(layer, got, options).run();
  if (options.conventions) name_conventions(layer, got, options, judged);
  return judged;
}

std::vector<Judgement> Judge::run() {
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

// Ops that copy, compare or convert: equal or not.
void Judge::judge_by_bits() {
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
    // A conversion rounds once, so that only a NaN may have other bits.
    if (layer_.op->nature != OpNature::movement && is_floating(got_[o].dtype()) &&
        j.stats.max_ulp == 0 && j.stats.non_finite() == 0) {
      conclude(j, Verdict::explained, std::string(kSameNumbers));
      j.sentence = fmt::format("Right: {}.", j.cause);
      continue;
    }
    j.verdict = Verdict::wrong;
    j.cause = cause_by_equal_replay(o);
    j.sentence =
        fmt::format("Wrong: {} of {} elements are not the ones that belong there{}.",
                    j.elements - equal, j.elements, j.cause.empty() ? "" : ", because " + j.cause);
  }
}

void Judge::judge_output(std::size_t o) {
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
  if (options_.contract.order.kind == OrderKind::tensorcore) {
    // Its adder cuts terms at the largest one's exponent: no sum of rounded additions.
    conclude(j, Verdict::undecided,
             "other bits than the contract's, and no bound is derived for a tensor core's adder");
    return;
  }
  judge_floats(j, o, points);
}

void Judge::fill_stats(Judgement& j, std::size_t o, const std::vector<Point>& points) const {
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

std::string Judge::cause_by_equal_replay(std::size_t o) {
  if (!options_.known_cause.empty()) return options_.known_cause;
  for (const Hypothesis& h : hypotheses_for(layer_)) {
    try {
      const auto replay = eval_.bits(h.layer, options_.contract);
      if (o < replay.size() && replay[o].type() == got_[o].type() &&
          bits_equal(got_[o], replay[o]) == got_[o].numel())
        return h.cause;
    } catch (const Error&) {
      // A hypothesis that cannot be computed on this layer explains nothing.
    }
  }
  return {};
}

void Judge::judge_integers(Judgement& j, std::size_t o) {
  if (j.stats.different == 0) {
    identical(j, "exact");
    return;
  }
  j.verdict = Verdict::wrong;
  j.cause = cause_by_equal_replay(o);
  j.sentence = fmt::format("Wrong: {} of {} integers differ{}.", j.stats.different,
                           j.stats.elements, j.cause.empty() ? "" : ", because " + j.cause);
}

void Judge::judge_floats(Judgement& j, std::size_t o, const std::vector<Point>& points) {
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
  if (outside || !plain.within)
    if (const auto narrower = stored_narrower(o, points, cause)) {
      conclude(j, *narrower, cause);
      return;
    }
  if (outside) {
    conclude(j, Verdict::wrong,
             "outside the bound of every order of summation, and no known fault explains it");
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
             plain.used > 1 ? fmt::format("inside the bound of any order, but {:.3g} times what "
                                          "rounding errors of independent sign leave",
                                          plain.used)
                            : std::string("inside the bound of any order and, one by one, of what "
                                          "rounding errors of independent sign leave, but larger "
                                          "on average"));
  } else {
    conclude(j, Verdict::explained, "another order of summation, fused or not");
    if (layer_.op->nature == OpNature::pointwise)
      j.cause = "rounding, within the accuracy of the library's functions";
    if (j.stats.max_ulp == 0 && j.stats.non_finite() == 0) {
      j.cause = std::string(kSameNumbers);
      j.sentence = fmt::format("Right: {}.", j.cause);
    }
  }
}

void Judge::identical(Judgement& j, const std::string& contract) const {
  j.verdict = Verdict::identical;
  j.cause = fmt::format("the bits of contract {}", contract);
  j.sentence = fmt::format("Right: every bit is the one that contract {} defines.", contract);
}

void Judge::conclude(Judgement& j, Verdict verdict, const std::string& cause) const {
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
          "Computed less precisely than f32: {}; errors up to {} units of the last digit{}.", cause,
          ulps(j.stats.max_ulp), looked);
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

}  // namespace etalon
