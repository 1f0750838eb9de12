#include "bench/micro/significance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/philox.h"

namespace etalon {
namespace {

// How many of the C(n+m, n) sequences have each value of U: the coefficients of the Gaussian
// binomial, prod (1 - q^(m+i)) / (1 - q^i). Below 2^53 for n, m <= 25, so doubles count exactly.
std::vector<double> counts_of_u(std::size_t n, std::size_t m) {
  std::vector<double> c(n * m + 1, 0.0);
  c[0] = 1;
  for (std::size_t i = 1; i <= n; ++i) {
    for (std::size_t u = c.size(); u-- > m + i;) c[u] -= c[u - m - i];
    for (std::size_t u = i; u < c.size(); ++u) c[u] += c[u - i];
  }
  return c;
}

}  // namespace

double median_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t half = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[half] : 0.5 * (sorted[half - 1] + sorted[half]);
}

double rank_test(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return 1;
  double u = 0;
  bool ties = false;
  for (const double x : a)
    for (const double y : b) {
      u += x > y ? 1 : x == y ? 0.5 : 0;
      ties = ties || x == y;
    }
  const auto n = static_cast<double>(a.size()), m = static_cast<double>(b.size());
  if (!ties && a.size() <= 25 && b.size() <= 25) {
    const std::vector<double> counts = counts_of_u(a.size(), b.size());
    const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
    const auto at = static_cast<std::size_t>(std::min(u, n * m - u));
    const double tail =
        std::accumulate(counts.begin(), counts.begin() + 1 + static_cast<std::ptrdiff_t>(at), 0.0);
    return std::min(1.0, 2 * tail / all);
  }
  std::vector<double> joined(a.begin(), a.end());
  joined.insert(joined.end(), b.begin(), b.end());
  std::ranges::sort(joined);
  double tied = 0;
  for (std::size_t i = 0; i < joined.size();) {
    std::size_t j = i;
    while (j < joined.size() && joined[j] == joined[i]) ++j;
    const auto t = static_cast<double>(j - i);
    tied += t * t * t - t;
    i = j;
  }
  const double all = n + m;
  const double variance = n * m / 12 * (all + 1 - tied / (all * (all - 1)));
  if (variance <= 0) return 1;
  const double z = std::max(0.0, std::fabs(u - n * m / 2) - 0.5) / std::sqrt(variance);
  return std::erfc(z / std::sqrt(2.0));
}

Interval ratio_interval(std::span<const double> a, std::span<const double> b) {
  if (a.empty() || b.empty()) return {};
  constexpr int kDraws = 2000;
  const Philox random{.seed = 1979};
  std::uint64_t at = 0;
  const auto draw = [&](std::span<const double> from) {
    std::vector<double> drawn(from.size());
    for (double& x : drawn) {
      const double u = 0.5 * (1 + static_cast<double>(random.uniform(at++)));
      x = from[std::min(from.size() - 1,
                        static_cast<std::size_t>(u * static_cast<double>(from.size())))];
    }
    return median_of(drawn);
  };
  std::vector<double> ratios(kDraws);
  for (double& r : ratios) {
    const double base = draw(a);
    r = draw(b) / base;
  }
  std::ranges::sort(ratios);
  return {ratios[kDraws / 40], ratios[kDraws - 1 - kDraws / 40]};
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
