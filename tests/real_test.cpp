// Balls hold the real value whatever is computed, exact formulas end on ties, and the ladder is
// climbed: random expressions against MPFR, sums that cancel, powers, special values.
#include "engine/numerics/real.h"

#include <doctest/doctest.h>

#include <vector>

#include "engine/core/error.h"
#include "engine/core/philox.h"
#include "tests/mpfr_oracle.h"

using namespace etalon;

namespace {

template <class A>
bool holds(A& a, const typename A::V& v, const Mpfr& exact);

template <>
bool holds(RealF64&, const RealF64::V& v, const Mpfr& exact) {
  Mpfr d(4000), r(53);
  mpfr_sub_d(d.v, exact.v, v.mid, MPFR_RNDN);
  mpfr_set_d(r.v, v.rad, MPFR_RNDN);
  return v.rad == 0 ? mpfr_zero_p(d.v) != 0 : mpfr_cmpabs(d.v, r.v) < 0;
}
template <int L>
bool holds_big(const typename RealBig<L>::V& v, const Mpfr& exact) {
  Mpfr mid(4000), t(64), r(64);
  for (int i = 0; i < L && !v.mid.is_zero(); ++i) {
    mpfr_set_uj_2exp(t.v, v.mid.limb[static_cast<std::size_t>(i)], v.mid.exponent + 64 * i,
                     MPFR_RNDN);
    mpfr_add(mid.v, mid.v, t.v, MPFR_RNDN);
  }
  if (v.mid.negative) mpfr_neg(mid.v, mid.v, MPFR_RNDN);
  mpfr_sub(mid.v, exact.v, mid.v, MPFR_RNDN);
  mpfr_set_uj_2exp(r.v, v.rad.m, v.rad.e, MPFR_RNDN);
  return v.exact() ? mpfr_zero_p(mid.v) != 0 : mpfr_cmpabs(mid.v, r.v) < 0;
}
template <>
bool holds(RealBig<4>&, const RealBig<4>::V& v, const Mpfr& exact) {
  return holds_big<4>(v, exact);
}

// A run of random operations on one value, the same in the balls and in MPFR at 3 900 bits.
template <class A>
void check_expressions(int trials, int steps) {
  const Philox random{.seed = 51};
  std::uint64_t next = 0;
  int decided = 0, inexact = 0;
  for (int trial = 0; trial < trials; ++trial) {
    A a;
    const double start = 1 + 0.5 * static_cast<double>(random.uniform(next++));
    typename A::V v = a.input(start);
    Mpfr x(3900), y(3900);
    mpfr_set_d(x.v, start, MPFR_RNDN);
    for (int step = 0; step < steps && !a.undecided; ++step) {
      const double c = static_cast<double>(random.uniform(next++)) * (trial % 3 == 0 ? 0x1p-40 : 1);
      const auto k = a.input(c);
      switch (random.word(next++) % 10) {
        case 0:
          v = a.add(v, k);
          mpfr_add_d(x.v, x.v, c, MPFR_RNDN);
          break;
        case 1:
          v = a.sub(k, v);
          mpfr_d_sub(x.v, c, x.v, MPFR_RNDN);
          break;
        case 2:
          v = a.mul(v, k);
          mpfr_mul_d(x.v, x.v, c, MPFR_RNDN);
          break;
        case 3:
          v = a.div(v, a.input(c + 2));
          mpfr_div_d(x.v, x.v, c + 2, MPFR_RNDN);
          break;
        case 4:
          v = a.mul(v, v);
          mpfr_sqr(x.v, x.v, MPFR_RNDN);
          break;
        case 5:
          v = a.sqrt(a.abs(v));
          mpfr_abs(x.v, x.v, MPFR_RNDN);
          mpfr_sqrt(x.v, x.v, MPFR_RNDN);
          break;
        case 6:
          v = a.fma(v, k, a.input(1));
          mpfr_mul_d(x.v, x.v, c, MPFR_RNDN);
          mpfr_add_ui(x.v, x.v, 1, MPFR_RNDN);
          break;
        case 7:
          v = a.call(Function::exp, a.neg(a.abs(v)));
          mpfr_abs(x.v, x.v, MPFR_RNDN);
          mpfr_neg(x.v, x.v, MPFR_RNDN);
          mpfr_exp(x.v, x.v, MPFR_RNDN);
          break;
        case 8:
          v = a.call(Function::atan, v);
          mpfr_atan(x.v, x.v, MPFR_RNDN);
          break;
        default:
          v = a.max(v, k);
          if (mpfr_cmp_d(x.v, c) < 0) mpfr_set_d(x.v, c, MPFR_RNDN);
          break;
      }
      if (a.undecided) break;
      // MPFR's own error, 2^-3890 of values near 1, is far below every radius but 0.
      bool exact;
      if constexpr (std::is_same_v<A, RealF64>)
        exact = v.rad == 0;
      else
        exact = v.exact();
      if (!exact) ++inexact;
      if (!holds(a, v, x)) {
        CAPTURE(trial);
        CAPTURE(step);
        CHECK(holds(a, v, x));
        break;
      }
    }
    if (a.undecided) continue;
    ++decided;
    for (const Round mode : kRounds) {
      const Rounded r = a.round(v, DType::f32, mode);
      const double expected = mpfr_rounded(
          DType::f32, mode, [&](mpfr_t z, mpfr_rnd_t m) { return mpfr_set(z, x.v, m); });
      if (r.decided) CHECK_MESSAGE(bits_of(r.value) == bits_of(expected), trial);
    }
  }
  CHECK(decided > trials / 2);
  CHECK(inexact > trials);
}

double exact_mean(const std::vector<double>& xs, Round mode, ExactStats& stats) {
  return correctly_rounded(
      [&](auto& a) {
        typename std::remove_reference_t<decltype(a)>::Sum sum(
            a, static_cast<std::int64_t>(xs.size()));
        for (const double x : xs) sum.add(a.input(x));
        return a.div(sum.result(), a.input(static_cast<double>(xs.size())));
      },
      DType::f32, mode, Subnormals::keep, nullptr, &stats);
}

}  // namespace

TEST_CASE("real: balls hold the value of random expressions") {
  check_expressions<RealF64>(600, 8);
  check_expressions<RealBig<4>>(60, 8);
}

TEST_CASE("real: sums are exact whatever cancels, and means that are midpoints end the ladder") {
  ExactStats stats;
  // (2^24 + 1 + 2^24 + 2) / 2 is a midpoint of f32; plus dust it is not.
  CHECK(exact_mean({0x1p24, 0x1p24 + 2}, Round::nearest_even, stats) == 0x1p24);
  CHECK(exact_mean({0x1p24 + 2, 0x1p24 + 4}, Round::nearest_even, stats) == 0x1p24 + 4);
  CHECK(stats.escalated == 0);
  CHECK(exact_mean({0x1p24, 0x1p24 + 2, 0x1p-149, 0x1p25 + 2}, Round::nearest_even, stats) ==
        0x1p24 + 2);
  CHECK(exact_mean({0x1p100, 1, -0x1p100, 0x1p-100}, Round::nearest_even, stats) == 0.25);
  CHECK(exact_mean({0x1p100, 1, -0x1p100, 0x1p-100}, Round::upward, stats) == 0.25 + 0x1p-25);
  CHECK(bits_of(exact_mean({1, -1}, Round::downward, stats)) == bits_of(-0.0));
  CHECK(bits_of(exact_mean({1, -1}, Round::nearest_even, stats)) == bits_of(0.0));
  CHECK(stats.escalated > 0);
  // L2 norm of (3m, 4m) = 5m; with m = 0x1.000001p0 * 0.8 a midpoint of f32.
  const double m = 0x1.000001p0;
  const double norm = correctly_rounded(
      [&](auto& a) {
        typename std::remove_reference_t<decltype(a)>::Sum sum(a, 2);
        sum.add_product(a.input(3 * m), a.input(3 * m));
        sum.add_product(a.input(4 * m), a.input(4 * m));
        return a.div(a.sqrt(sum.result()), a.input(5));
      },
      DType::f32, Round::nearest_even, Subnormals::keep, nullptr, &stats);
  CHECK(norm == 1.0);
}

TEST_CASE("real: special values, comparisons, and what cannot be decided") {
  RealF64 a;
  const auto third = a.ratio(1, 3);
  CHECK(third.rad > 0);
  CHECK(a.ratio(3, 4).rad == 0);
  CHECK(a.less(third, a.input(0.34)));
  CHECK(!a.undecided);
  (void)a.less(third, a.div(a.input(2), a.input(6)));
  CHECK(a.undecided);
  RealF64 b;
  CHECK(is_nan(b.sub(b.input(kInfinity), b.input(kInfinity)).mid));
  CHECK(is_nan(b.mul(b.input(kNan), b.ratio(1, 3)).mid));
  CHECK(b.div(b.input(1), b.input(-0.0)).mid == -kInfinity);
  CHECK(bits_of(b.max(b.input(-0.0), b.input(0.0)).mid) == bits_of(-0.0));
  CHECK(is_nan(b.max(b.input(1), b.input(kNan)).mid));
  CHECK(!b.undecided);
  RealBig<4> c;
  CHECK(c.mul(c.input(kNan), c.ratio(1, 3)).mid.is_nan());
  CHECK(c.less(c.ratio(1, 3), c.input(0.34)));
  CHECK(!c.undecided);
  (void)c.div(c.input(1), c.sub(c.ratio(1, 3), c.ratio(2, 6)));
  CHECK(c.undecided);
  // f64 overflows; RealBig does not.
  const double huge = correctly_rounded(
      [](auto& s) {
        return s.div(s.mul(s.input(1e300), s.input(1e300)), s.mul(s.input(1e300), s.input(3e299)));
      },
      DType::f32);
  CHECK(huge == round_to(10.0 / 3.0, DType::f32));
  // An irrational formula of a rational value is never decided in a directed mode: an error, no
  // guess.
  CHECK_THROWS_WITH_AS(
      correctly_rounded([](auto& s) { return s.mul(s.sqrt(s.input(2)), s.sqrt(s.input(2))); },
                        DType::f32, Round::upward),
      doctest::Contains("2304 bits do not decide"), Error);
}

TEST_CASE("real: pow equals MPFR, IEEE's special cases and exact ties included") {
  const Philox random{.seed = 52};
  std::vector<std::pair<double, double>> pairs;
  const double specials[] = {
      0.0,  -0.0,      1.0,        -1.0, 2.0,  -2.0,     3.0,  0.5,
      -0.5, kInfinity, -kInfinity, kNan, 1e30, 0x1p-149, 25.0, 0x1.000002p0 * 0x1.000002p0,
      0.75, -0.75,     4.0,        1.5,  33.0, 0.1};
  for (const double x : specials)
    for (const double y : specials) pairs.emplace_back(x, y);
  for (std::uint64_t i = 0; i < 400; ++i) {
    const float x =
        float_of((random.word(2 * i) & 0x007fffffU) | (127 - 8 + random.word(2 * i) % 17) << 23);
    pairs.emplace_back(static_cast<double>(x),
                       8.0 * static_cast<double>(random.uniform(2 * i + 1)));
  }
  // Squares of 25-bit numbers' halves: the root of x is a midpoint of f32.
  for (std::uint64_t i = 0; i < 50; ++i) {
    const double root = 0x1000001 + 2.0 * static_cast<double>(random.word(i) % 4096);
    pairs.emplace_back(root * root, 0.5);
  }
  for (const auto& pair : pairs) {
    const auto& [x, y] = pair;
    Mpfr u(53), v(53);
    mpfr_set_d(u.v, x, MPFR_RNDN);
    mpfr_set_d(v.v, y, MPFR_RNDN);
    for (const Round mode : kRounds) {
      const double expected = mpfr_rounded(
          DType::f32, mode, [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_pow(r, u.v, v.v, m); });
      const double got = correctly_rounded(
          [&pair](auto& a) { return a.pow(a.input(pair.first), a.input(pair.second)); }, DType::f32,
          mode);
      if (bits_of(got) != bits_of(expected)) {
        CAPTURE(x);
        CAPTURE(y);
        CAPTURE(to_string(mode));
        CHECK(bits_of(got) == bits_of(expected));
      }
    }
  }
  CHECK(pairs.size() > 900);
  const auto zero =
      correctly_rounded([](auto& a) { return a.pow(a.input(0), a.ratio(1, 3)); }, DType::f32);
  CHECK(bits_of(zero) == bits_of(0.0));
}

TEST_CASE("real: the truth is within 2^-10 ULP") {
  const Philox random{.seed = 53};
  for (std::uint64_t i = 0; i < 300; ++i) {
    const double x = static_cast<double>(random.uniform(i));
    double truth = 0;
    const auto f = [&](auto& a) {
      return a.sub(a.call(Function::exp, a.input(x)),
                   a.input(static_cast<double>(static_cast<float>(1 + x))));
    };
    const double y =
        correctly_rounded(f, DType::f32, Round::nearest_even, Subnormals::keep, &truth);
    Mpfr e(400);
    mpfr_set_d(e.v, x, MPFR_RNDN);
    mpfr_exp(e.v, e.v, MPFR_RNDN);
    mpfr_sub_d(e.v, e.v, static_cast<double>(static_cast<float>(1 + x)), MPFR_RNDN);
    mpfr_sub_d(e.v, e.v, truth, MPFR_RNDN);
    CHECK(abs_of(mpfr_get_d(e.v, MPFR_RNDA)) <= ulp_of(y, DType::f32) * 0x1p-10);
    CHECK(round_to(truth, DType::f32) == y);
  }
}
