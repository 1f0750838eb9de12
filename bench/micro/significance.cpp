#include "bench/micro/significance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace etalon {
namespace {

// The regularised incomplete beta function by its continued fraction (Lentz's algorithm), which
// converges fast for x < (a + 1) / (a + b + 2).
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  if (x > (a + 1) / (a + b + 2)) return 1 - incomplete_beta(b, a, 1 - x);
  const double front = std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) +
                                a * std::log(x) + b * std::log1p(-x)) /
                       a;
  constexpr double kTiny = 1e-300;
  double c = 1, d = 1 / std::max(kTiny, 1 - (a + b) * x / (a + 1)), f = d;
  for (int m = 1; m <= 500; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double step = 1;
    for (const double term : {even, odd}) {
      d = 1 + term * d;
      d = 1 / (std::fabs(d) < kTiny ? kTiny : d);
      c = 1 + term / c;
      if (std::fabs(c) < kTiny) c = kTiny;
      step = c * d;
      f *= step;
    }
    if (std::fabs(step - 1) < 1e-15) break;
  }
  return front * f;
}

struct Moments {
  double mean = 0, variance_of_mean = 0, count = 0;
};
Moments moments(std::span<const double> times) {
  Moments m;
  m.count = static_cast<double>(times.size());
  for (const double t : times) m.mean += std::log(t) / m.count;
  double squares = 0;
  for (const double t : times) squares += (std::log(t) - m.mean) * (std::log(t) - m.mean);
  if (times.size() > 1) m.variance_of_mean = squares / (m.count - 1) / m.count;
  return m;
}

}  // namespace

double student_tails(double t, double degrees) {
  return incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t));
}

double student_quantile(double p, double degrees) {
  double low = 0, high = 1;
  while (student_tails(high, degrees) > p && high < 1e12) high *= 2;
  for (int i = 0; i < 200 && high - low > 1e-12 * high; ++i) {
    const double middle = 0.5 * (low + high);
    (student_tails(middle, degrees) > p ? low : high) = middle;
  }
  return high;
}

TimeRatio compare_runs(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return {};
  const Moments x = moments(a), y = moments(b);
  const double shift = y.mean - x.mean;
  TimeRatio r;
  r.ratio = std::exp(shift);
  if (std::min(a.size(), b.size()) < static_cast<std::size_t>(kLeastRuns)) return r;
  r.tested = true;
  const double variance = x.variance_of_mean + y.variance_of_mean;
  if (variance <= 0) {  // no run differs from the others of its side
    r.p = shift == 0 ? 1 : 0;
    r.low = r.high = r.ratio;
    return r;
  }
  const double degrees = variance * variance /
                         (x.variance_of_mean * x.variance_of_mean / (x.count - 1) +
                          y.variance_of_mean * y.variance_of_mean / (y.count - 1));
  const double error = std::sqrt(variance);
  r.p = student_tails(shift / error, degrees);
  const double reach = student_quantile(0.05, degrees) * error;
  r.low = std::exp(shift - reach);
  r.high = std::exp(shift + reach);
  return r;
}

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

std::vector<double> corrected(const std::vector<double>& p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t i, std::size_t j) { return p[i] < p[j]; });
  std::vector<double> out(p.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    largest = std::max(largest, std::min(1.0, static_cast<double>(p.size() - i) * p[order[i]]));
    out[order[i]] = largest;
  }
  return out;
}

}  // namespace etalon
