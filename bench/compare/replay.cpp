#include <algorithm>
#include <cmath>

#include "bench/compare/judge.h"
#include "engine/numerics/element.h"

namespace etalon {

namespace {

// "eps is 1e-08, not 1e-05" with "eps is 1e-12, not 1e-05": "eps is 1e-08 or 1e-12, not 1e-05",
// where the data cannot tell one value from another. Other causes stay alone.
std::string with_other_value(const std::string& cause, const std::string& other) {
  const auto value = [](const std::string& s) {
    const std::size_t is = s.find(" is "), comma = s.rfind(", not ");
    return is == std::string::npos || comma == std::string::npos || comma < is
               ? std::pair(std::string::npos, std::string::npos)
               : std::pair(is + 4, comma);
  };
  const auto [from, to] = value(cause);
  const auto [other_from, other_to] = value(other);
  if (from == std::string::npos || other_from == std::string::npos ||
      cause.substr(0, from) != other.substr(0, other_from) ||
      cause.substr(to) != other.substr(other_to))
    return cause;
  return fmt::format("{} or {}{}", cause.substr(0, to),
                     other.substr(other_from, other_to - other_from), cause.substr(to));
}

bool all_zero(const Tensor& t) {
  for (std::int64_t i = 0; i < t.numel(); ++i)
    if (load_as_double(t, i) != 0) return false;
  return true;
}

}  // namespace

// Tries every hypothesis on the small sample; true when one is named.
bool Judge::explain(std::size_t o, std::string& cause, Verdict& verdict) {
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
  // Outside: zeros that rounding may leave of terms that cancel are not meant.
  const auto missing = [&](const Point& p) {
    return p.outside() && abs_of(p.real) >= smallest_normal(got_[o].dtype());
  };
  if (std::ranges::any_of(plain_points, missing) && all_zero(got_[o])) {
    cause = "every output is zero";  // any factor that is small enough would explain it
    verdict = Verdict::wrong;
    return true;
  }
  double best = kInfinity;
  const Hypothesis* nearest = nullptr;
  std::vector<std::pair<double, const Hypothesis*>> fitting;
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
      // A replay without a bound explains nothing.
      const auto open_ended = [](const Point& p) { return !(p.likely < kInfinity); };
      if (std::ranges::count_if(points, open_ended) >
          std::ranges::count_if(plain_points, open_ended))
        continue;
      const Fit fit = fit_of(points, plain_points, options_.lambda);
      const bool fits = fit.within && fit.energy <= (plain.within ? rho : 0.5) * plain.energy;
      // What a replay leaves may be a second, far smaller difference (a folded normalisation).
      const bool dominates = fit.energy <= std::min(1e-4, rho) * plain.energy;
      if (!fits && !dominates) continue;
      fitting.emplace_back(fit.energy, &h);
      if (!(fit.energy < best)) continue;
      best = fit.energy;
      nearest = &h;
      cause = h.cause;
      verdict = h.verdict;
    } catch (const Error&) {
      // The changed layer does not exist (a padding wider than its kernel): not the cause.
    }
  }
  for (const auto& [energy, h] : fitting)
    if (h != nearest && energy <= 2 * best) cause = with_other_value(cause, h->cause);
  return best < kInfinity;
}

const std::vector<Hypothesis>& Judge::hypotheses() {
  if (!hypotheses_) hypotheses_ = hypotheses_for(layer_);
  return *hypotheses_;
}

// Narrower accumulators, bit for bit: nothing else makes 99 % of the bits of such a contract.
bool Judge::replay_contracts(std::size_t o, const std::vector<Point>& points, std::string& cause) {
  const DType stored = got_[o].dtype();
  if (layer_.op->nature != OpNature::sum || (stored != DType::f32 && !is_half(stored)) ||
      points.size() < 8)
    return false;
  // In a narrow output few roundings show: then the contract's own bits are as near.
  if (is_half(stored) && share_of_bits(o, options_.contract, hypothesis_sample_) >= 0.99)
    return false;
  // A few slices tell most contracts off.
  std::vector<std::int64_t> probe(
      hypothesis_sample_.begin(),
      hypothesis_sample_.begin() +
          static_cast<std::ptrdiff_t>(std::min<std::size_t>(8, hypothesis_sample_.size())));
  for (const ContractReplay& replay : narrow_contracts(terms_)) {
    // What the contract asks for is no lower precision.
    if (replay.contract.acc == options_.contract.acc &&
        replay.contract.round == options_.contract.round)
      continue;
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

double Judge::share_of_bits(std::size_t o, const Contract& c,
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

namespace {

constexpr double kReach = 6;  // of independent roundings, as for the probable bound

// What a result may be off by that was computed in a narrower format d.
struct NarrowReach {
  DType d;
  bool sums;

  // A partial sum of n terms t is of the size of sqrt(sum t^2), which the bound of any order, n u
  // sum |t|, tells to a factor (1.5 for terms of normal factors); n roundings of independent sign
  // leave sqrt(n) units of it.
  double likely(const Point& p) const {
    if (!sums) return 0;
    const auto n = static_cast<double>(p.terms);
    const double terms = p.bound / (std::sqrt(n) * n * 0x1p-24) * 1.5;
    return std::sqrt(n * (p.real * p.real + terms * terms)) *
           std::ldexp(1.0, -info(d).precision_bits);
  }
  // Stored, and of a function that is computed in d, another unit.
  double stored(const Point& p) const {
    const double size = std::min(std::max(abs_of(p.real), abs_of(p.got)), largest_finite(d));
    return ulp_of(size, d) * (sums ? 0.5 : 1) + (sums ? 0 : p.bound);
  }
  bool covers(const Point& p) const {
    if (is_nan(p.got) || is_nan(p.real)) return is_nan(p.got) && is_nan(p.real);
    if (p.got == p.real || !(p.bound < kInfinity)) return true;
    const double reach = kReach * likely(p) + stored(p);
    if (!p.finite())
      return is_finite(p.real) && (p.got > 0) == (p.real > 0) &&
             abs_of(p.real) + reach > largest_finite(d);
    if (p.got == 0 && abs_of(p.real) < smallest_normal(d)) return true;  // flushed
    return abs_of(p.residual()) <= reach;
  }
};

std::optional<Verdict> near_enough(const std::vector<Point>& points, const NarrowReach& narrow) {
  double error2 = 0, allowed2 = 0, real2 = 0;
  for (const Point& p : points) {
    if (!narrow.covers(p)) return std::nullopt;
    if (!p.finite() || !(p.bound < kInfinity)) continue;
    const double allowed = 2 * narrow.likely(p) + narrow.stored(p);
    error2 += p.residual() * p.residual();
    allowed2 += allowed * allowed;
    real2 += p.real * p.real;
  }
  if (error2 > allowed2) return std::nullopt;
  return allowed2 > real2 ? Verdict::undecided : Verdict::lower_precision;
}

}  // namespace

// All outputs (or the outputs before a bias was added) are numbers of a narrower format, and as
// near as it allows: f32 arithmetic leaves a share of 2^-13 (f16) or 2^-16 (bf16) of such numbers
// by chance. Where what the format allows is larger than the outputs, no statement.
std::optional<Verdict> Judge::stored_narrower(std::size_t o, const std::vector<Point>& given,
                                              std::string& cause) const {
  if (got_[o].dtype() != DType::f32 || got_[o].numel() < 8) return std::nullopt;
  std::vector<Point> points = given;
  if (options_.contract.acc != DType::f32) {  // NarrowReach reads the size of terms out of f32's
    AnyOrderModel model = model_;
    model.acc = DType::f32;
    const auto bounds = eval_.bounds(layer_, options_.contract, model, sample_);
    points = points_of(static_cast<int>(o), got_[o], bounds, bounds);
  }
  const bool sums = layer_.op->nature != OpNature::pointwise;
  for (const DType d : {DType::bf16, DType::f16}) {
    std::size_t counted = 0;
    bool all = true;
    for (const Point& p : points) {
      if (p.got == 0 || !p.finite()) continue;
      all = all && round_to(p.got, d) == p.got;
      // Where the right value is such a number anyway (sign, one_hot, counts) it tells nothing.
      const double right = load_as_double(truth_.rounded[o], p.index);
      if (round_to(right, d) != right) ++counted;
    }
    if (counted < 8 || !all) continue;
    if (const auto verdict = near_enough(points, {d, sums})) {
      cause = fmt::format("every output is a number of {}: {}", etalon::name(d),
                          sums ? "sums are accumulated or stored in it" : "it is stored in it");
      if (*verdict == Verdict::undecided) cause += ", which may leave more than the outputs' size";
      return verdict;
    }
  }
  const std::string_view op = layer_.op->name;
  if ((op != "conv" && op != "gemm") || layer_.inputs.size() < 3 || !layer_.inputs[2] ||
      layer_.inputs[2].dtype() != DType::f32)
    return std::nullopt;
  const auto b = layer_.inputs[2].data<float>();
  const Shape& s = got_[o].shape();
  const std::int64_t inner = op == "conv" ? s.product(2, s.rank()) : 1;
  if (static_cast<std::int64_t>(b.size()) != s[1]) return std::nullopt;
  for (const DType d : {DType::bf16, DType::f16}) {
    std::vector<Point> sums_of;
    std::size_t counted = 0;
    bool all = true;
    for (Point p : points) {
      const double y = p.got, unit = is_finite(y) ? ulp_of(y, DType::f32) : 0;
      const auto bias = static_cast<double>(b[static_cast<std::size_t>(p.index / inner % s[1])]);
      p.got -= bias;
      p.real -= bias;
      sums_of.push_back(p);
      if (!p.finite() || abs_of(p.got) < abs_of(y) * 0x1p-8) continue;
      ++counted;
      // The final addition rounded once to f32.
      all = all && abs_of(round_to(p.got, d) - p.got) <= unit;
    }
    if (counted < 8 || !all) continue;
    if (const auto verdict = near_enough(sums_of, {d, true})) {
      cause =
          fmt::format("every output less its bias is a number of {}: sums are accumulated in it",
                      etalon::name(d));
      if (*verdict == Verdict::undecided) cause += ", which may leave more than the outputs' size";
      return verdict;
    }
  }
  return std::nullopt;
}

}  // namespace etalon
