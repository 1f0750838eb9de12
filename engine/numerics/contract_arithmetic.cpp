#include "engine/numerics/contract_arithmetic.h"

#include "engine/numerics/contract_arithmetic_inl.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

namespace {

// An exact zero as the sum of a and b: -0 where both are, else +0, or -0 rounded downward.
double zero_sum(double a, double b, Round mode) {
  if (sign_bit(a) == sign_bit(b)) return a;
  return mode == Round::downward ? -0.0 : 0.0;
}

// A directed f64 takes its last step by the exact error's sign, which is no f64 where the result is
// small, and none where it is infinite to nearest: integers then. Of values of other formats every
// result is within.
bool lost(double result) { return !(abs_of(result) >= 0x1p-900 && abs_of(result) < kInfinity); }

// x = (-1)^sign m 2^q, m with its top bit set; x finite, not zero.
struct Significand {
  std::uint64_t m;
  std::int64_t q;
  explicit Significand(double x) {
    const std::uint64_t b = bits_of(x);
    const auto e = static_cast<std::int64_t>(b >> 52 & 0x7ff);
    m = (b & 0x000fffffffffffffU) | (e == 0 ? 0 : std::uint64_t{1} << 52);
    const int shift = __builtin_clzll(m);
    m <<= shift;
    q = (e == 0 ? 1 : e) - 1075 - shift;
  }
};

// a / b by whole numbers: 64 bits of the quotient, and whether something is left.
double divided(double a, double b, Round mode) {
  const Significand x(a), y(b);
  const uint128 n = static_cast<uint128>(x.m) << 63;
  uint128 quotient = n / y.m;  // of 63 or 64 bits
  std::int64_t q = x.q - y.q - 63;
  uint128 left = n % y.m;
  if (quotient >> 63 == 0) {
    left *= 2;
    quotient = quotient * 2 + (left >= y.m ? 1U : 0U);
    left -= left >= y.m ? y.m : 0;
    --q;
  }
  return round_scaled(sign_bit(a) != sign_bit(b), static_cast<std::uint64_t>(quotient), q,
                      left != 0, DType::f64, mode, Subnormals::keep);
}

}  // namespace

SoftOps::V SoftOps::add(V a, V b) const {
  if (acc == DType::f64 && mode == Round::nearest_even) return flush(a + b);
  const TwoDoubles s = two_sum(a, b);
  if (s.value == 0 && s.error == 0) return zero_sum(a, b, mode);
  // Sums of small numbers are exact.
  if (acc == DType::f64 && abs_of(s.value) == kInfinity)
    return flush(fma_f64_emulated(a, 1, b, mode));
  return finish(s.value, s.error);
}

SoftOps::V SoftOps::mul(V a, V b) const {
  if (acc == DType::f64 && mode == Round::nearest_even) return flush(a * b);
  const TwoDoubles p = two_prod(a, b);
  if (a == 0 || b == 0) return p.value;
  // Nor is it where splitting a factor overflowed.
  if (acc == DType::f64 && (lost(p.value) || is_nan(p.error)))
    return flush(fma_f64_emulated(a, b, with_sign(0.0, sign_bit(a) != sign_bit(b)), mode));
  return finish(p.value, p.error);
}

SoftOps::V SoftOps::div(V a, V b) const {
  const double q = a / b;
  if (a == 0 || b == 0 || !is_finite(a) || !is_finite(b)) return round(q);
  if (acc == DType::f64 && (lost(q) || lost(a))) return flush(divided(a, b, mode));
  // The residual a - q*b is exact; its sign over b's says on which side of q the quotient lies.
  const double r = fma_f64(-q, b, a);
  return finish(q, with_residual(q, r == 0 ? 0.0 : (sign_bit(r) == sign_bit(b) ? 1.0 : -1.0)));
}

SoftOps::V SoftOps::sqrt(V a) const {
  if (acc == DType::f64 && a > 0 && a < 0x1p-900) return sqrt(a * 0x1p200) * 0x1p-100;
  const double q = __builtin_sqrt(a);
  if (!is_finite(q) || q == 0) return round(q);
  const double r = fma_f64(-q, q, a);
  return finish(q, with_residual(q, r));
}

SoftOps::V SoftOps::fma(V a, V b, V c) const {
  if (!fused) return add(mul(a, b), c);
  if (acc == DType::f64)
    return flush(mode == Round::nearest_even ? fma_f64(a, b, c) : fma_f64_emulated(a, b, c, mode));
  // acc has at most 24 bits: the product is exact in f64, and one rounding is left.
  const double p = a * b;
  const TwoDoubles s = two_sum(p, c);
  if (s.value == 0 && s.error == 0) return zero_sum(p, c, mode);
  return finish(s.value, s.error);
}

SoftOps::V SoftOps::finish(double value, double error) const {
  if (!is_finite(value) || is_nan(error)) return round(value);
  // To nearest f16 and bf16, of a normal number that stays below the largest power of two: on the
  // bits.
  if (mode == Round::nearest_even && (acc == DType::f16 || acc == DType::bf16)) {
    const FloatFormat f = format_of(acc);
    const std::uint64_t b = bits_of(round_to_odd(value, error));
    const auto exponent = static_cast<int>(b >> 52 & 0x7ff) - 1023;
    if (exponent >= f.min_exponent && exponent < f.max_exponent) {
      const int drop = 53 - f.precision;
      const std::uint64_t last = std::uint64_t{1} << drop;
      const std::uint64_t up = last / 2 - 1 + (b >> drop & 1);
      return double_of((b + up) & ~(last - 1));
    }
  }
  return round_sum_to(value, error, acc, mode, subnormals);
}

double SoftOps::with_residual(double q, double residual) {
  if (residual == 0) return 0.0;
  return with_sign(abs_of(q) * 0x1p-60, sign_bit(residual));
}

template class ContractArithmetic<NativeF32Ops>;
template class ContractArithmetic<SoftOps>;

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
