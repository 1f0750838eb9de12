// Claim: each operation of a contract with acc=f64 is MPFR's, rounded once in any mode: of ordinary
// numbers, of exact cases, and where results, or what they lack, are subnormal, zero or infinite.
#include <doctest/doctest.h>

#include <string>

#include "engine/core/philox.h"
#include "engine/numerics/contract_arithmetic.h"
#include "tests/mpfr_oracle.h"

using namespace etalon;

namespace {

std::uint64_t word(const Philox& random, std::uint64_t i) {
  return static_cast<std::uint64_t>(random.word(2 * i)) << 32U | random.word(2 * i + 1);
}

// Any bits, numbers near one, with few bits, around both ends of the range.
double number(std::uint64_t w, std::uint64_t kind) {
  const double near_one = 1 + static_cast<double>(w >> 12U) * 0x1p-52;
  const double signed_one = (w & 1U) != 0 ? -near_one : near_one;
  switch (kind % 7) {
    case 0:
      return double_of(w);
    case 1:
      return signed_one;
    case 2:
      return signed_one * 0x1p-540;
    case 3:
      return signed_one * 0x1p-1020;
    case 4:
      return signed_one * 0x1p1022;
    case 5:
      return static_cast<double>(static_cast<std::int64_t>(w % 64) - 32);
    default:
      return double_of(w & 0x800fffffffffffffU);
  }
}

double flushed(double x) { return abs_of(x) < 0x1p-1022 ? with_sign(0.0, sign_bit(x)) : x; }

}  // namespace

TEST_CASE("contracts with acc=f64: every operation in every mode is MPFR's") {
  const Philox random{.seed = 41};
  std::int64_t lost = 0, beyond = 0, wrong = 0;
  Mpfr x(53), y(53), z(53);
  for (const Round mode : kRounds) {
    for (const Subnormals subnormals : {Subnormals::keep, Subnormals::flush}) {
      Contract c = Contract::parse("acc=f64");
      c.round = mode;
      c.subnormals = subnormals;
      const SoftOps ops(c);
      for (std::uint64_t i = 0; i < 40000; ++i) {
        const double a = number(word(random, 3 * i), i), b = number(word(random, 3 * i + 1), i / 7);
        const double d = number(word(random, 3 * i + 2), i / 49);
        mpfr_set_d(x.v, a, MPFR_RNDN);
        mpfr_set_d(y.v, b, MPFR_RNDN);
        mpfr_set_d(z.v, d, MPFR_RNDN);
        const auto check = [&](const std::string& what, double got, auto of) {
          double expected = mpfr_rounded(DType::f64, mode, of);
          // Results, not operands that are given back.
          if (subnormals == Subnormals::flush) expected = flushed(expected);
          if (bits_of(canonical(got)) == bits_of(expected)) return;
          if (++wrong > 10) return;
          CAPTURE(what);
          CAPTURE(to_string(mode));
          CAPTURE(a);
          CAPTURE(b);
          CAPTURE(d);
          CHECK(bits_of(got) == bits_of(expected));
        };
        check("add", ops.add(a, b),
              [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_add(r, x.v, y.v, m); });
        check("mul", ops.mul(a, b),
              [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_mul(r, x.v, y.v, m); });
        check("div", ops.div(a, b),
              [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_div(r, x.v, y.v, m); });
        check("sqrt", ops.sqrt(a), [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_sqrt(r, x.v, m); });
        check("fma", ops.fma(a, b, d),
              [&](mpfr_t r, mpfr_rnd_t m) { return mpfr_fma(r, x.v, y.v, z.v, m); });
        const double p = abs_of(a * b);
        lost += p > 0 && p < 0x1p-969 ? 1 : 0;
        beyond += p == kInfinity && is_finite(a) && is_finite(b) ? 1 : 0;
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(lost > 10000);
  CHECK(beyond > 10000);
}
