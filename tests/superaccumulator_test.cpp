// Exact sums against MPFR at 4 600 bits, where every sum of doubles and of products is exact. The
// data cancels, spans the whole range, and ends on and beside midpoints, so a lost bit, a missed
// carry or a second rounding shows.
#include "engine/numerics/superaccumulator.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "engine/core/philox.h"
#include "tests/mpfr_oracle.h"

using namespace etalon;

namespace {

constexpr mpfr_prec_t kPrecision = 4600;

std::uint64_t word64(const Philox& random, std::uint64_t i) {
  return std::uint64_t{random.word(2 * i)} << 32 | random.word(2 * i + 1);
}
double finite_double(std::uint64_t w) {
  return is_finite(double_of(w)) ? double_of(w) : double_of(w & 0xffbfffffffffffffU);
}

void check_all(const Superaccumulator& sum, const Mpfr& exact) {
  for (const DType to : kFloatTypes)
    for (const Round mode : kRounds) {
      double expected =
          mpfr_rounded(to, mode, [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_set(r, exact.v, m); });
      if (mpfr_zero_p(exact.v)) expected = mode == Round::downward ? -0.0 : 0.0;
      const double got = sum.round(to, mode);
      if (bits_of(got) != bits_of(expected)) {
        CAPTURE(name(to));
        CAPTURE(to_string(mode));
        CHECK(bits_of(got) == bits_of(expected));
      }
    }
  const Superaccumulator::Nearest n = sum.nearest();
  const int side = mpfr_cmp_d(exact.v, n.value);
  CHECK(n.residual_sign == (is_finite(n.value) ? (side > 0) - (side < 0) : 0));
}

struct Both {
  Superaccumulator sum;
  Mpfr exact{kPrecision};
  void add(double x) {
    sum.add(x);
    mpfr_add_d(exact.v, exact.v, x, MPFR_RNDN);
  }
  void add_product(double a, double b) {
    Mpfr p(106), y(53);
    sum.add_product(a, b);
    mpfr_set_d(p.v, a, MPFR_RNDN);
    mpfr_set_d(y.v, b, MPFR_RNDN);
    mpfr_mul(p.v, p.v, y.v, MPFR_RNDN);
    mpfr_add(exact.v, exact.v, p.v, MPFR_RNDN);
  }
};

}  // namespace

TEST_CASE("superaccumulator: sums and products over the whole range equal MPFR") {
  const Philox random{.seed = 11};
  std::uint64_t next = 0;
  for (int trial = 0; trial < 300; ++trial) {
    Both both;
    const int terms = trial < 290 ? 1 + trial % 23 : 5000;  // past the carry interval
    for (int i = 0; i < terms; ++i) {
      double a = finite_double(word64(random, next++)), b = finite_double(word64(random, next++));
      switch (trial % 5) {
        case 0:
          both.add(a);
          break;
        case 1:
          both.add_product(a, b);
          break;
        case 2: {  // f32 data
          const float x = static_cast<float>(random.uniform(next++));
          const float y =
              float_of(static_cast<std::uint32_t>(word64(random, next++)) & 0xbfffffffU);
          both.sum.add_product(x, y);
          mpfr_add_d(both.exact.v, both.exact.v, static_cast<double>(x) * static_cast<double>(y),
                     MPFR_RNDN);
          break;
        }
        case 3:  // everything cancels but the last term
          both.add_product(a, b);
          both.add_product(-a, b);
          if (i + 1 == terms) both.add(b * 0x1p-40);
          break;
        default:  // a midpoint of f32, then dust far below it
          if (i == 0) both.add(0x1.000001p0);
          both.add((i % 2 == 0 ? 1 : -1) *
                   double_of((word64(random, next++) & 0xfffffffffffffU) + 1));
          break;
      }
    }
    check_all(both.sum, both.exact);
  }
}

TEST_CASE("superaccumulator: midpoints of each format with a sticky bit at any distance") {
  for (const DType to : kFloatTypes) {
    const double tail = ulp_of(1.0, to) / 2;
    for (const double base : {1.0, 1.0 + ulp_of(1.0, to), -1.0, largest_finite(to)})
      for (int distance = 0; distance <= 1074; distance += 7) {
        Both both;
        both.add(base);
        both.add(base == largest_finite(to) ? ulp_of(base, to) / 2 : base > 0 ? tail : -tail);
        if (distance > 0)
          both.add((distance % 2 == 0 ? 1 : -1) * double_of(std::uint64_t{1} << (distance % 60)));
        check_all(both.sum, both.exact);
      }
  }
}

TEST_CASE("superaccumulator: order, merging and scale do not matter") {
  const Philox random{.seed = 12};
  std::vector<double> xs;
  for (std::uint64_t i = 0; i < 4000; ++i) xs.push_back(finite_double(word64(random, i)));
  Superaccumulator forward, backward, halves[2];
  for (const double x : xs) forward.add(x);
  std::reverse(xs.begin(), xs.end());
  for (std::size_t i = 0; i < xs.size(); ++i) {
    backward.add(xs[i]);
    halves[i % 2].add(xs[i]);
  }
  halves[0].add(halves[1]);
  CHECK(bits_of(forward.round(DType::f64)) == bits_of(backward.round(DType::f64)));
  CHECK(bits_of(forward.round(DType::f64)) == bits_of(halves[0].round(DType::f64)));
  Superaccumulator one;
  one.add(3.0);
  CHECK(one.round(DType::f64, Round::nearest_even, Subnormals::keep, -1075) == double_of(2));
  CHECK(one.round(DType::f64, Round::nearest_even, Subnormals::keep, -1076) == double_of(1));
}

TEST_CASE("superaccumulator: special values and the sign of zero") {
  const auto sum = [](std::initializer_list<double> xs, Round mode = Round::nearest_even) {
    Superaccumulator s;
    for (const double x : xs) s.add(x);
    return bits_of(s.round(DType::f32, mode));
  };
  CHECK(sum({}) == bits_of(0.0));
  CHECK(sum({}, Round::downward) == bits_of(0.0));
  CHECK(sum({0.0, 0.0}, Round::downward) == bits_of(0.0));
  CHECK(sum({-0.0, -0.0}) == bits_of(0.0));
  CHECK(sum({-0.0}, Round::downward) == bits_of(-0.0));
  CHECK(sum({1.0, -1.0}) == bits_of(0.0));
  CHECK(sum({1.0, -1.0}, Round::downward) == bits_of(-0.0));
  CHECK(sum({1.0, kInfinity}) == bits_of(kInfinity));
  CHECK(sum({-kInfinity, 1.0}) == bits_of(-kInfinity));
  CHECK(sum({kInfinity, -kInfinity}) == kNanF64);
  CHECK(sum({-kNan, 1.0}) == kNanF64);
  Superaccumulator s;
  s.add_product(0.0, kInfinity);
  CHECK(bits_of(s.round(DType::f32)) == kNanF64);
  // The largest sums stay exact: 2^1024 - 2^1024 + 1 through f64's overflow.
  Superaccumulator big;
  for (int i = 0; i < 4; ++i)
    big.add_product(largest_finite(DType::f64), largest_finite(DType::f64));
  big.add(1.0);
  for (int i = 0; i < 4; ++i)
    big.add_product(-largest_finite(DType::f64), largest_finite(DType::f64));
  CHECK(big.round(DType::f64) == 1.0);
}
