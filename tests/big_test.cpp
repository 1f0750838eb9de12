// Big against MPFR truncating at the same precision: value, inexact flag, and rounding to the
// formats.
#include "engine/numerics/big.h"

#include <doctest/doctest.h>

#include "engine/core/philox.h"
#include "tests/mpfr_oracle.h"

using namespace etalon;

namespace {

template <int L>
void to_mpfr(mpfr_t r, const Big<L>& x) {  // r has at least 64 L bits
  if (x.kind != Big<L>::Kind::finite) {
    if (x.kind == Big<L>::Kind::zero) mpfr_set_zero(r, x.negative ? -1 : 1);
    if (x.kind == Big<L>::Kind::infinity) mpfr_set_inf(r, x.negative ? -1 : 1);
    if (x.kind == Big<L>::Kind::nan) mpfr_set_nan(r);
    return;
  }
  Mpfr t(64);
  mpfr_set_zero(r, 1);
  for (int i = L - 1; i >= 0; --i) {
    mpfr_set_uj_2exp(t.v, x.limb[static_cast<std::size_t>(i)], x.exponent + 64 * i, MPFR_RNDN);
    REQUIRE(mpfr_add(r, r, t.v, MPFR_RNDN) == 0);
  }
  if (x.negative) mpfr_neg(r, r, MPFR_RNDN);
}

// Random limbs, among them runs of zeros and ones, exact short values, near-equal pairs.
template <int L>
Big<L> random_big(const Philox& random, std::uint64_t& next) {
  Big<L> x;
  x.kind = Big<L>::Kind::finite;
  const std::uint32_t style = random.word(next++) % 6;
  for (std::uint64_t& limb : x.limb) {
    limb = std::uint64_t{random.word(next)} << 32 | random.word(next + 1);
    next += 2;
    const std::uint32_t w = random.word(next++);
    if (style == 1 && w % 2 == 0) limb = w % 4 == 0 ? 0 : ~std::uint64_t{0};
    if (style == 2) limb = 0;
    if (style == 3) limb = ~std::uint64_t{0};
  }
  if (style == 2) x.limb[L - 1] = std::uint64_t{random.word(next++)} << 40;
  if (style == 4) {
    x.limb.fill(0);
    x.limb[0] = random.word(next++) % 3;
  }
  x.limb[L - 1] |= std::uint64_t{1} << 63;
  x.negative = random.word(next++) % 2 == 0;
  x.exponent = static_cast<std::int64_t>(random.word(next++) % (L * 150)) - L * 64 - 60;
  return x;
}

template <int L>
void check_ops(int count) {
  const Philox random{.seed = 21, .stream = L};
  std::uint64_t next = 0;
  int inexact_seen = 0, exact_seen = 0;
  for (int i = 0; i < count; ++i) {
    Big<L> a = random_big<L>(random, next), b = random_big<L>(random, next);
    if (i % 5 == 0) {  // cancellation
      b = -a;
      b.limb[0] ^= random.word(next++) % 4;
      b.exponent += random.word(next++) % 3;
    }
    if (i % 7 == 0) {  // an exact quotient and square
      bool ignore = false;
      Big<L> c = Big<L>::of(static_cast<double>(random.word(next++)) + 1);
      const Big<L> d = Big<L>::of(static_cast<double>(random.word(next++)) + 1);
      a = Big<L>::mul(c, d, ignore);
      b = d;
      if (i % 14 == 0) a = Big<L>::mul(d, d, ignore);
    }
    Mpfr x(64 * L), y(64 * L), expected(64 * L), got(64 * L);
    to_mpfr(x.v, a);
    to_mpfr(y.v, b);
    const auto check = [&](const char* what, const Big<L>& r, bool inexact, int ternary) {
      to_mpfr(got.v, r);
      const bool equal =
          mpfr_equal_p(got.v, expected.v) || (mpfr_nan_p(got.v) && mpfr_nan_p(expected.v));
      if (!equal || inexact != (ternary != 0)) {
        CAPTURE(what);
        CAPTURE(L);
        CAPTURE(i);
        CHECK(equal);
        CHECK(inexact == (ternary != 0));
      }
      (inexact ? inexact_seen : exact_seen) += 1;
    };
    bool inexact = false;
    Big<L> r = Big<L>::add(a, b, inexact);
    check("add", r, inexact, mpfr_add(expected.v, x.v, y.v, MPFR_RNDZ));
    inexact = false;
    r = Big<L>::sub(a, b, inexact);
    check("sub", r, inexact, mpfr_sub(expected.v, x.v, y.v, MPFR_RNDZ));
    inexact = false;
    r = Big<L>::mul(a, b, inexact);
    check("mul", r, inexact, mpfr_mul(expected.v, x.v, y.v, MPFR_RNDZ));
    inexact = false;
    r = Big<L>::div(a, b, inexact);
    check("div", r, inexact, mpfr_div(expected.v, x.v, y.v, MPFR_RNDZ));
    if (i % 10 < 2 || L < 10) {
      inexact = false;
      a.negative = false;
      mpfr_abs(x.v, x.v, MPFR_RNDN);
      r = Big<L>::sqrt(a, inexact);
      check("sqrt", r, inexact, mpfr_sqrt(expected.v, x.v, MPFR_RNDZ));
    }
    CHECK_MESSAGE(Big<L>::compare(a, b) == (mpfr_cmp(x.v, y.v) > 0) - (mpfr_cmp(x.v, y.v) < 0), i);
    // Rounding, also of values just beside a short one.
    a.exponent = static_cast<std::int64_t>(random.word(next++) % 2400) - 1200 - 64 * L;
    if (i % 3 == 0)
      a.exponent = static_cast<std::int64_t>(random.word(next++) % 320) - 160 - 64 * L;
    to_mpfr(x.v, a);
    for (const DType to : kFloatTypes)
      for (const Round mode : kRounds)
        for (const int nudge : {0, 1, -1}) {
          Mpfr z(64 * L + 80);
          mpfr_set(z.v, x.v, MPFR_RNDN);
          if (nudge != 0)
            (nudge > 0) == (mpfr_sgn(z.v) > 0) ? mpfr_nextabove(z.v) : mpfr_nextbelow(z.v);
          const double want = mpfr_rounded(
              to, mode, [&](mpfr_t m, mpfr_rnd_t rnd) { return mpfr_set(m, z.v, rnd); });
          const double have = a.round(to, mode, Subnormals::keep, nudge);
          if (bits_of(want) != bits_of(have)) {
            CAPTURE(name(to));
            CAPTURE(nudge);
            CHECK(bits_of(want) == bits_of(have));
          }
        }
  }
  CHECK(inexact_seen > count / 2);
  CHECK(exact_seen > count / 4);
}

}  // namespace

TEST_CASE("big: add, sub, mul, div, sqrt truncate as MPFR and know when they are exact") {
  check_ops<2>(3000);
  check_ops<4>(3000);
  check_ops<10>(700);
  check_ops<36>(100);
}

TEST_CASE("big: doubles and accumulators in, doubles out") {
  const Philox random{.seed = 22};
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const double x = double_of(std::uint64_t{random.word(2 * i)} << 32 | random.word(2 * i + 1));
    if (is_nan(x)) continue;
    double back = 0;
    REQUIRE(Big<4>::of(x).as_double(back));
    REQUIRE(bits_of(back) == bits_of(x));
    Superaccumulator sum;
    sum.add(x);
    bool inexact = false;
    const Big<4> b = Big<4>::of(sum, inexact);
    REQUIRE(b.as_double(back));
    REQUIRE(back == x);
    REQUIRE(!inexact);
  }
  for (const double x : {double_of(1), double_of(3), double_of(0x000fffffffffffffU)}) {
    double back = 0;
    REQUIRE(Big<4>::of(x).as_double(back));
    CHECK(back == x);
    CHECK(!Big<4>::of(x).times_power_of_two(-1).as_double(back));
  }
  Superaccumulator wide;
  wide.add(0x1p1000);
  wide.add(0x1p-1000);
  bool inexact = false;
  CHECK(Big<4>::of(wide, inexact).round(DType::f64) == 0x1p1000);
  CHECK(inexact);
  inexact = false;
  (void)Big<36>::of(wide, inexact);
  CHECK(!inexact);
}
