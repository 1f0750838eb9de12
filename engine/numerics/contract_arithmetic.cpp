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

}  // namespace

SoftOps::V SoftOps::add(V a, V b) const {
  if (acc == DType::f64 && mode == Round::nearest_even) return flush(a + b);
  const TwoDoubles s = two_sum(a, b);
  if (s.value == 0 && s.error == 0) return zero_sum(a, b, mode);
  return finish(s.value, s.error);
}

SoftOps::V SoftOps::mul(V a, V b) const {
  if (acc == DType::f64 && mode == Round::nearest_even) return flush(a * b);
  const TwoDoubles p = two_prod(a, b);
  if (a == 0 || b == 0) return p.value;
  return finish(p.value, p.error);
}

SoftOps::V SoftOps::div(V a, V b) const {
  const double q = a / b;
  if (!is_finite(q) || q == 0 || b == 0) return round(q);
  // The residual a - q*b is exact; its sign over b's says on which side of q the quotient lies.
  const double r = fma_f64(-q, b, a);
  return finish(q, with_residual(q, r == 0 ? 0.0 : (sign_bit(r) == sign_bit(b) ? 1.0 : -1.0)));
}

SoftOps::V SoftOps::sqrt(V a) const {
  const double q = __builtin_sqrt(a);
  if (!is_finite(q) || q == 0) return round(q);
  const double r = fma_f64(-q, q, a);
  return finish(q, with_residual(q, r));
}

SoftOps::V SoftOps::fma(V a, V b, V c) const {
  if (!fused) return add(mul(a, b), c);
  if (acc == DType::f64) {
    if (mode != Round::nearest_even)
      throw usage_error(
          "acc=f64 with round={} and fma=on is not offered: a fused product of f64 has no exact "
          "f64 error; use fma=off or round=rn",
          to_string(mode));
    return flush(fma_f64(a, b, c));
  }
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
