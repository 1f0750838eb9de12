// The comparison of times: published values of the rank test, ties, correction, and that a planted
// slowdown is found while the same distribution is not.
#include "bench/micro/significance.h"

#include <doctest/doctest.h>

#include "engine/core/philox.h"

using namespace etalon;

TEST_CASE("significance: the rank test has the exact probabilities") {
  // n = m = 3, no overlap: 2 of C(6,3) = 20 sequences. n = 2, m = 4 with U = 1: 2 * 2 / 15.
  CHECK(rank_test(std::vector{1.0, 2.0, 3.0}, std::vector{4.0, 5.0, 6.0}) == doctest::Approx(0.1));
  CHECK(rank_test(std::vector{1.0, 3.0}, std::vector{2.0, 4.0, 5.0, 6.0}) ==
        doctest::Approx(4.0 / 15));
  // 9 against 9 apart: 2 of 48620.
  std::vector<double> low, high;
  for (int i = 0; i < 9; ++i) {
    low.push_back(i);
    high.push_back(100 + i);
  }
  CHECK(rank_test(low, high) == doctest::Approx(2.0 / 48620).epsilon(1e-12));
  CHECK(rank_test(high, low) == doctest::Approx(2.0 / 48620).epsilon(1e-12));
  CHECK(rank_test(low, low) == doctest::Approx(1));
  CHECK(rank_test(std::vector{1.0, 1.0}, std::vector{1.0, 1.0}) == 1);
  CHECK(rank_test(std::vector<double>{}, low) == 1);
  // With a tie, the approximation: n = m = 9, one value shared.
  high[0] = 8;
  CHECK(rank_test(low, high) < 1e-3);
}

TEST_CASE("significance: Holm's correction") {
  const std::vector<double> p = corrected({0.01, 0.04, 0.03, 0.5});
  CHECK(p[0] == doctest::Approx(0.04));
  CHECK(p[2] == doctest::Approx(0.09));
  CHECK(p[1] == doctest::Approx(0.09));  // never below one with a smaller p
  CHECK(p[3] == doctest::Approx(0.5));
}

TEST_CASE("significance: a planted slowdown is found, equal distributions are not") {
  const Philox random{.seed = 5};
  std::uint64_t at = 0;
  const auto times = [&](double scale) {
    std::vector<double> t(9);
    for (double& x : t) x = scale * (1 + 0.01 * static_cast<double>(random.uniform(at++)));
    return t;
  };
  std::vector<double> same, slow;
  for (int i = 0; i < 200; ++i) {
    const auto a = times(1);
    same.push_back(rank_test(a, times(1)));
    slow.push_back(rank_test(a, times(1.03)));
  }
  int found = 0, false_alarms = 0, raw = 0;
  for (const double p : corrected(slow)) found += p < 0.05 ? 1 : 0;
  for (const double p : corrected(same)) false_alarms += p < 0.05 ? 1 : 0;
  for (const double p : same) raw += p < 0.05 ? 1 : 0;
  CHECK(found == 200);
  CHECK(false_alarms == 0);
  CHECK(raw < 25);  // 5 % of 200, and not a test that never speaks
  CHECK(raw > 0);
  const auto a = times(1), b = times(1.03);
  const Interval i = ratio_interval(a, b);
  CHECK(i.low < 1.03);
  CHECK(i.high > 1.02);
  CHECK(i.low > 1.005);
  CHECK(median_of(a) > 0.99);
}
