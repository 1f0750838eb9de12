#include <algorithm>
#include <cmath>

#include "bench/compare/judge.h"
#include "engine/numerics/element.h"

namespace etalon {

namespace {

// Terms beyond which single outputs are no longer held against the probabilistic bound.
constexpr std::int64_t kRmsTerms = 10'000;

}  // namespace

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

void Judge::take_sample() {
  const std::int64_t slices = eval_.slices(layer_, options_.contract);
  slices_ = slices;
  model_ = AnyOrderModel::of(options_.contract);
  if (options_.library != nullptr) model_.functions = options_.library->of(layer_.op->name);
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
  const std::int64_t few = std::clamp<std::int64_t>(options_.term_budget / 8 / per_slice, 64, 1024);
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
  hypothesis_likely_ = eval_.bounds(layer_, options_.contract, likely_model(), hypothesis_sample_);
  hypothesis_rigorous_ = eval_.bounds(layer_, options_.contract, model_, hypothesis_sample_);
}

// A sample could miss a fault in few outputs (a border): where the contract's bits are cheap, the
// outputs farthest from them are looked at too.
void Judge::add_outliers(std::int64_t slices) {
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
void Judge::add_slice(std::vector<std::int64_t>& to, std::int64_t index, std::size_t o,
                      std::int64_t slices) const {
  const std::int64_t per =
      std::max<std::int64_t>(1, got_[o].numel() / std::max<std::int64_t>(1, slices));
  const std::int64_t slice = std::min(index / per, slices - 1);
  const auto at = std::ranges::lower_bound(to, slice);
  if (at == to.end() || *at != slice) to.insert(at, slice);
}

void Judge::add_worst(std::size_t o, std::int64_t slices) {
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

// Elements that the listed slices do not compute are left 0 there, which counts as unequal; this
// leaves out those that clearly belong to other slices.
bool Judge::in_slices(std::int64_t index, std::size_t o,
                      const std::vector<std::int64_t>& slices) const {
  const std::int64_t per =
      std::max<std::int64_t>(1, got_[o].numel() / std::max<std::int64_t>(1, slices_));
  return std::ranges::binary_search(slices, std::min(index / per, slices_ - 1));
}

}  // namespace etalon
