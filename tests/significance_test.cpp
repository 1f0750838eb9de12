// The comparison of times: published values of Student's distribution, a published example of
// Welch's test, the correction, and that a planted slowdown is found while runs that differ among
// themselves are not called a change.
#include "bench/micro/significance.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>

#include "engine/core/philox.h"

using namespace etalon;

TEST_CASE("significance: Student's distribution has its tabulated values") {
  // Student (1908) as tabulated: two-sided 5 % and 1 %.
  const std::array<std::array<double, 3>, 6> table{{{1, 12.7062, 63.6567},
                                                    {2, 4.30265, 9.92484},
                                                    {4, 2.77645, 4.60409},
                                                    {10, 2.22814, 3.16927},
                                                    {30, 2.04227, 2.75000},
                                                    {120, 1.97993, 2.61742}}};
  for (const auto& [degrees, five, one] : table) {
    CAPTURE(degrees);
    CHECK(student_quantile(0.05, degrees) == doctest::Approx(five).epsilon(1e-5));
    CHECK(student_quantile(0.01, degrees) == doctest::Approx(one).epsilon(1e-5));
    CHECK(student_tails(five, degrees) == doctest::Approx(0.05).epsilon(1e-4));
    CHECK(student_tails(-five, degrees) == doctest::Approx(0.05).epsilon(1e-4));
  }
  CHECK(student_tails(0, 7) == doctest::Approx(1));
  CHECK(student_tails(1, 1) == doctest::Approx(0.5));  // Cauchy: the quartiles are -1 and 1
}

TEST_CASE("significance: runs are compared by their logarithms") {
  // On logarithms 0, 1, 2 and 3, 4, 8: means 1 and 5, variances of the mean 1/3 and 7/3, so
  // t = 4 / sqrt(8/3) with (8/3)^2 / ((1/9) / 2 + (49/9) / 2) = 2.56 degrees.
  const auto e = [](double x) { return std::exp(x); };
  const std::array a{e(0), e(1), e(2)}, b{e(3), e(4), e(8)};
  const TimeRatio r = compare_runs(a, b);
  CHECK(r.tested);
  CHECK(r.ratio == doctest::Approx(e(4)));
  CHECK(r.p == doctest::Approx(student_tails(4 / std::sqrt(8.0 / 3), 2.56)).epsilon(1e-9));
  CHECK(r.low * r.high == doctest::Approx(r.ratio * r.ratio));
  CHECK(r.low < 1);  // p is above 5 %
  CHECK(compare_runs(b, a).p == doctest::Approx(r.p));
  CHECK(compare_runs(a, a).p == doctest::Approx(1));
  // One or two runs of a side say nothing about how runs differ.
  CHECK_FALSE(compare_runs(std::array{1.0}, std::array{9.0}).tested);
  CHECK(compare_runs(std::array{1.0}, std::array{9.0}).ratio == doctest::Approx(9));
  CHECK(compare_runs(std::array{1.0, 1.0}, b).p == 1);
  CHECK(compare_runs(std::array{1.0, 1.0, 1.0}, std::array{2.0, 2.0, 2.0}).p == 0);
}

TEST_CASE("significance: Holm's correction") {
  const std::vector<double> p = corrected({0.01, 0.04, 0.03, 0.5});
  CHECK(p[0] == doctest::Approx(0.04));
  CHECK(p[2] == doctest::Approx(0.09));
  CHECK(p[1] == doctest::Approx(0.09));  // never below one with a smaller p
  CHECK(p[3] == doctest::Approx(0.5));
}

TEST_CASE("significance: a planted slowdown is found, runs that differ are no change") {
  const Philox random{.seed = 5};
  std::uint64_t at = 0;
  // Runs that differ by 5 %, and now and then by much more, as on a machine that others use.
  const auto runs = [&](double scale) {
    std::vector<double> t(5);
    for (double& x : t) {
      const auto u = static_cast<double>(random.uniform(at++));
      x = scale * (1 + 0.05 * u + (u > 0.95 ? 0.5 : 0));
    }
    return t;
  };
  std::vector<double> same, slow;
  for (int i = 0; i < 400; ++i) {
    const auto a = runs(1);
    same.push_back(compare_runs(a, runs(1)).p);
    slow.push_back(compare_runs(a, runs(1.5)).p);
  }
  int found = 0, false_alarms = 0, raw = 0;
  for (const double p : slow) found += p < 0.05 ? 1 : 0;
  for (const double p : corrected(same)) false_alarms += p < 0.05 ? 1 : 0;
  for (const double p : same) raw += p < 0.05 ? 1 : 0;
  CHECK(found > 350);
  CHECK(false_alarms == 0);
  CHECK(raw <= 30);  // 5 % of 400, and half as many again
  CHECK(raw > 0);    // not a test that never speaks
}
