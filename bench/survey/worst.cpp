#include "bench/survey/worst.h"

#include <algorithm>
#include <cmath>

#include "engine/numerics/fp.h"

namespace etalon {
namespace {

constexpr double kValueRadius = 0x1p-12;  // of what an evaluation in f64 gives

// A power of two: 2^(e - 23) for a float of the exponent e, -126 for zeros and subnormals. ulp_of()
// says the same of every format, for ten times the time; this is asked for billions of times.
double float_ulp(float x) {
  const std::uint32_t biased = std::max(std::bit_cast<std::uint32_t>(x) >> 23 & 255U, 1U);
  return std::bit_cast<double>((std::uint64_t{biased} - 127 - 23 + 1023) << 52);
}
double ulps_between(float got, double value, float right) {
  return std::fabs(static_cast<double>(got) - value) / float_ulp(right);
}

}  // namespace

WorstError::Candidate WorstError::candidate(float x, float got, float right, double value,
                                            double radius) const {
  constexpr double kSlack = 1 + 0x1p-50;  // outweighs the roundings of the distance
  const double ulps = ulps_between(got, value, right);
  return {ulps / kSlack - radius, ulps * kSlack + radius, x, got, right, value};
}

WorstError::Candidate WorstError::refined(float x, float got, float right) const {
  const double ulp = float_ulp(right);
  bool undecided = false;
  const RealF64::V ball = f_.ball(static_cast<double>(x), undecided);
  if (!undecided && ball.rad < 0x1p-4 * ulp)  // false for NaN
    return candidate(x, got, right, ball.mid, ball.rad / ulp);
  // The correctly rounded value is half an ULP from the real one at most.
  return candidate(x, got, right, static_cast<double>(right), 0.5);
}

void WorstError::keep(const Candidate& c) {
  if (c.high < low_) return;
  // As many in a row as f64 tells nothing apart of.
  const bool alike =
      !candidates_.empty() && candidates_.back().low == c.low && candidates_.back().high == c.high;
  alike_ = alike ? alike_ + 1 : 0;
  if (alike_ > kAlike) return;
  low_ = std::max(low_, c.low);
  candidates_.push_back(c);
}

void WorstError::add(float x, float got, float right, double value) {
  if (!candidates_.empty()) {
    const Candidate& last = candidates_.back();
    if (last.value == value && last.got == got && last.right == right) return;
  }
  keep(std::isfinite(value) ? candidate(x, got, right, value, kValueRadius)
                            : refined(x, got, right));
  if (candidates_.size() >= next_prune_) prune();
}

void WorstError::prune() {
  const auto drop = [&] {
    std::erase_if(candidates_, [&](const Candidate& c) { return c.high < low_; });
  };
  drop();
  if (candidates_.size() < kPrune / 2) return;
  for (Candidate& c : candidates_) {
    const Candidate closer = refined(c.x, c.got, c.right);
    if (closer.high - closer.low >= c.high - c.low) continue;
    c = closer;
    low_ = std::max(low_, c.low);
  }
  drop();
  std::size_t alike = 0;
  std::erase_if(candidates_,
                [&](const Candidate& c) { return c.high - c.low < 0x1p-16 && ++alike > kAlike; });
  next_prune_ = std::max(kPrune, 2 * candidates_.size());
}

WorstError::Found WorstError::largest(double than) {
  prune();
  Found found;
  found.ulp = than;
  for (const Candidate& c : candidates_) {
    if (c.high <= found.ulp) continue;
    const double exact = f_.value(static_cast<double>(c.x), DType::f64, Round::nearest_even);
    const double ulps = ulps_between(c.got, exact, c.right);
    if (ulps > found.ulp) found = {ulps, c.x, c.got, c.right};
  }
  if (found.ulp == than) found.ulp = 0;
  return found;
}

}  // namespace etalon
