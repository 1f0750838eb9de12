// Special values and exact cases that both number systems share, on plain doubles.
#pragma once

#include "engine/numerics/fp.h"
#include "engine/numerics/function.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// f(x) where x is NaN, infinite, zero, outside the domain, or a point whose image is known exactly
// and cannot be left to a series. Returns whether it is one.
//   sqrt(-0) = -0, rsqrt(+-0) = reciprocal(+-0) = +-inf, log*(+-0) = -inf, odd functions keep -0,
//   sin, cos, tan of infinities are NaN, log of negative numbers is NaN, atanh(+-1) = +-inf.
ETALON_HD inline bool special_value(Function f, double x, double& y) {
  if (is_nan(x)) {
    y = kNan;
    return true;
  }
  const bool zero = x == 0, infinite = !is_finite(x);
  const double odd_infinity = x;  // f(+-inf) = +-inf
  const auto is = [&y](double value) {
    y = value;
    return true;
  };
  switch (f) {
    case Function::exp:
    case Function::exp2:
      if (zero) return is(1);
      return infinite && is(x > 0 ? kInfinity : 0.0);
    case Function::expm1:
      if (zero) return is(x);
      return infinite && is(x > 0 ? kInfinity : -1.0);
    case Function::log:
    case Function::log2:
    case Function::log10:
      if (zero) return is(-kInfinity);
      if (x < 0) return is(kNan);
      if (x == 1) return is(0.0);
      return infinite && is(kInfinity);
    case Function::log1p:
      if (zero) return is(x);
      if (x == -1) return is(-kInfinity);
      if (x < -1) return is(kNan);
      return infinite && is(kInfinity);
    case Function::sqrt:
      if (zero) return is(x);
      if (x < 0) return is(kNan);
      return infinite && is(kInfinity);
    case Function::rsqrt:
      if (zero) return is(with_sign(kInfinity, sign_bit(x)));
      if (x < 0) return is(kNan);
      return infinite && is(0.0);
    case Function::reciprocal:
      if (zero) return is(with_sign(kInfinity, sign_bit(x)));
      return infinite && is(with_sign(0.0, sign_bit(x)));
    case Function::cbrt:
    case Function::sinh:
    case Function::asinh:
      if (zero) return is(x);
      return infinite && is(odd_infinity);
    case Function::sin:
    case Function::tan:
      if (zero) return is(x);
      return infinite && is(kNan);
    case Function::cos:
      if (zero) return is(1);
      return infinite && is(kNan);
    case Function::asin:
      if (zero) return is(x);
      return (x > 1 || x < -1) && is(kNan);
    case Function::acos:
      if (x == 1) return is(0.0);
      return (x > 1 || x < -1) && is(kNan);
    case Function::atan:
      return zero && is(x);  // +-inf: +-pi/2 is rounded like any value
    case Function::cosh:
      if (zero) return is(1);
      return infinite && is(kInfinity);
    case Function::tanh:
    case Function::erf:
      if (zero) return is(x);
      return infinite && is(with_sign(1.0, sign_bit(x)));
    case Function::acosh:
      if (x == 1) return is(0.0);
      if (x < 1) return is(kNan);
      return infinite && is(kInfinity);
    case Function::atanh:
      if (zero) return is(x);
      if (x > 1 || x < -1) return is(kNan);
      return (x == 1 || x == -1) && is(with_sign(kInfinity, sign_bit(x)));
    case Function::erfc:
      if (zero) return is(1);
      return infinite && is(x > 0 ? 0.0 : 2.0);
    case Function::sigmoid:
      if (zero) return is(0.5);
      return infinite && is(x > 0 ? 1.0 : 0.0);
    case Function::log_sigmoid:
      return infinite && is(x > 0 ? -0.0 : -kInfinity);
    case Function::softplus:
      return infinite && is(x > 0 ? kInfinity : 0.0);
  }
  return false;
}

ETALON_HD inline bool is_integer(double x) {
  if (!(abs_of(x) < 0x1p52)) return is_finite(x);
  return (abs_of(x) + 0x1p52) - 0x1p52 == abs_of(x);
}
ETALON_HD inline bool is_odd_integer(double x) {
  if (!is_integer(x) || !(abs_of(x) < 0x1p53)) return false;
  return (static_cast<std::int64_t>(x) & 1) != 0;
}

// log2 and log10 of exact powers.
ETALON_HD inline bool exact_logarithm(Function f, double x, double& y) {
  if (f == Function::log2) {
    const std::uint64_t b = bits_of(x), fraction = b & 0x000fffffffffffffU;
    const int e = static_cast<int>(b >> 52);
    if (e != 0) {
      y = e - 1023;
      return fraction == 0;
    }
    y = -1011 - __builtin_clzll(fraction);
    return (fraction & (fraction - 1)) == 0;
  }
  if (f == Function::log10) {
    double power = 1;  // 10^22 is the last that a double holds; no negative power is one
    for (int k = 0; k <= 22; ++k, power *= 10)
      if (x == power) {
        y = k;
        return true;
      }
  }
  return false;
}

// pow(x, y) by IEEE 754 where it is not |x|^y of finite non-zero x and y.
ETALON_HD inline bool special_pow(double x, double y, double& r) {
  if (y == 0 || x == 1) {
    r = 1;
    return true;
  }
  if (is_nan(x) || is_nan(y)) {
    r = kNan;
    return true;
  }
  const double size = abs_of(x);
  if (!is_finite(y)) {
    r = size == 1 ? 1 : (size > 1) == (y > 0) ? kInfinity : 0.0;
    return true;
  }
  if (x == 0 || !is_finite(x)) {
    const bool large = (x == 0) == (y < 0);
    r = with_sign(large ? kInfinity : 0.0, sign_bit(x) && is_odd_integer(y));
    return true;
  }
  if (x < 0 && !is_integer(y)) {
    r = kNan;
    return true;
  }
  return false;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
