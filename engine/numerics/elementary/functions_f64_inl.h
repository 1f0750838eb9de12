// Elementary functions over f64 balls, and the entry to correctly rounded values.
//
// at() composes the cores of f64_core.h; each formula's error is derived beside it, in units of
// u = 2^-53. Where a result approaches a limit without reaching it (tanh to 1, softplus to x), the
// ball is open at the limit, so that the directed modes are decided too. exp of large arguments
// returns the stand-ins of real.h.
#pragma once

#include "engine/numerics/elementary/f64_core.h"
#include "engine/numerics/elementary/special.h"
#include "engine/numerics/function.h"
#include "engine/numerics/real_f64.h"

// NOLINTBEGIN(misc-definitions-in-headers): one source of a program includes this.
namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

namespace f64_ball {

using V = RealF64::V;

ETALON_HD inline V relative(double y, double error) {
  return RealF64::with_error(y, abs_of(y) * error);
}
ETALON_HD inline V huge() { return {0x1p1000, 0x1p999}; }
ETALON_HD inline V tiny() { return {0x1p-1005, 0x1p-1006}; }
ETALON_HD inline V minus(const V& v) { return {-v.mid, v.rad}; }
// The open ball whose end farthest from zero is +-1 or +-2, at most 2^-52 of it wide.
ETALON_HD inline V just_inside(double limit) {
  const double y = limit > 0 ? next_down(limit) : next_up(limit);
  return {y, abs_of(limit - y)};
}
ETALON_HD inline V exp_at(double x) {
  if (x > 700) return huge();
  if (x < -690) return tiny();
  return relative(f64_core::exp(x), f64_core::kExpError);
}
// log of any positive double; subnormals are scaled.
ETALON_HD inline double log_value(double x) {
  if (x >= 0x1p-1022) return f64_core::log(x, 0);
  return f64_core::log(x * 0x1p60, 0) - 60 * tables::kLn2;  // far from 0: no cancellation
}

// f(x) for x that is not special.
ETALON_HD inline V at(RealF64& a, Function f, double x) {
  using namespace f64_core;
  const double size = abs_of(x);
  switch (f) {
    case Function::exp:
      return exp_at(x);
    case Function::exp2:
      if (x > 1000) return huge();
      if (x < -990) return tiny();
      if (is_integer(x)) return {power_of_two(static_cast<int>(x)), 0};
      return relative(f64_core::exp2(x), kExpError);
    case Function::expm1:
      if (x > 700) return huge();
      if (x < -40) return just_inside(-1);  // e^-40 < 2^-57
      return relative(f64_core::expm1(x), kExpm1Error);
    case Function::log:
      return relative(log_value(x), kLogError);
    case Function::log2:
    case Function::log10: {
      double y;
      if (exact_logarithm(f, x, y)) return {y, 0};
      // One constant, one product: 2 u more.
      const double c = f == Function::log2 ? tables::kInverseLn2 : tables::kInverseLn10;
      return relative(log_value(x) * c, kLogError * 1.25);
    }
    case Function::log1p:
      if (size < 0x1p-900) return a.undecide();
      return relative(f64_core::log1p(x), kLogError);
    case Function::sqrt:
      return a.sqrt({x, 0});
    case Function::rsqrt:
      return a.div({1, 0}, a.sqrt({x, 0}));
    case Function::reciprocal:
      return a.div({1, 0}, {x, 0});
    case Function::cbrt: {
      if (size < 0x1p-1000 || size > 0x1p1000) return a.undecide();
      const double y = f64_core::cbrt(x);
      const double candidate = static_cast<double>(static_cast<float>(y));
      const TwoDoubles cube = two_prod(candidate * candidate, candidate);
      if (cube.value == x && cube.error == 0) return {candidate, 0};
      return relative(y, kCbrtError);
    }
    case Function::sin:
    case Function::cos:
    case Function::tan: {
      const ReducedAngle t = reduce_angle(x);
      const bool swap = (t.quadrant & 1) != 0;
      if (f == Function::tan) {  // two values, a quotient: 2 * 1.8 u + u
        const double s = sin_reduced(t.r, t.low), c = cos_reduced(t.r, t.low);
        return relative(swap ? -c / s : s / c, 5 * kSinError / 4 * 2);
      }
      const int quarter = t.quadrant + (f == Function::cos ? 1 : 0);
      const double y = (quarter & 1) != 0 ? cos_reduced(t.r, t.low) : sin_reduced(t.r, t.low);
      return relative((quarter & 2) != 0 ? -y : y, kSinError);
    }
    case Function::asin: {
      // atan(x / sqrt((1 - x)(1 + x))): five roundings, 4 u, not amplified: y/(1+y^2) <= atan(y).
      if (size == 1) return relative(with_sign(tables::kHalfPiHigh, x < 0), kSinError);
      const double y = x / sqrt_f64((1 - x) * (1 + x));
      return relative(f64_core::atan(y), kAtanError * 1.5);
    }
    case Function::acos:
      // 2 atan(sqrt((1 - x)/(1 + x))): four roundings.
      if (x == -1) return relative(2 * tables::kHalfPiHigh, kSinError);
      return relative(2 * f64_core::atan(sqrt_f64((1 - x) / (1 + x))), kAtanError * 1.5);
    case Function::atan:
      if (!is_finite(x)) return relative(with_sign(tables::kHalfPiHigh, x < 0), kSinError);
      return relative(f64_core::atan(x), kAtanError);
    case Function::sinh: {
      // (E + E/(E + 1))/2, E = expm1(|x|): 10.6 u + 2.5 u.
      if (size > 700) return x > 0 ? huge() : minus(huge());
      const double e = f64_core::expm1(size);
      return relative(with_sign(0.5 * (e + e / (e + 1)), x < 0), kExpm1Error * 1.25);
    }
    case Function::cosh: {
      if (size > 700) return huge();
      const double e = f64_core::exp(size);  // 2.1 u + 1.5 u
      return relative(0.5 * (e + 1 / e), kExpError * 1.5);
    }
    case Function::tanh: {
      // E/(E + 2), E = expm1(2|x|): 10.6 u and two roundings. 1 - tanh(20) < 2^-56.
      if (size > 20) return just_inside(with_sign(1, x < 0));
      const double e = f64_core::expm1(2 * size);
      return relative(with_sign(e / (e + 2), x < 0), kExpm1Error);
    }
    case Function::asinh: {
      // log1p of w = |x| + x^2/(1 + sqrt(1 + x^2)): 4 u, not amplified: w/(1+w) <= log1p(w).
      // Beyond 2^28 log(2|x|), which is less by 1/(4 x^2) < 2^-58.
      if (size < 0x1p-900) return a.undecide();
      const double y = size > 0x1p28 ? f64_core::log(size, 0) + tables::kLn2
                                     : f64_core::log1p(size + x * x / (1 + sqrt_f64(1 + x * x)));
      return relative(with_sign(y, x < 0), kLogError * 1.5);
    }
    case Function::acosh: {
      // log1p of w = t + sqrt(t (x + 1)), t = x - 1: 4 u. Beyond 2^28 as asinh.
      const double t = x - 1;
      const double y = x > 0x1p28 ? f64_core::log(x, 0) + tables::kLn2
                                  : f64_core::log1p(t + sqrt_f64(t * (x + 1)));
      return relative(y, kLogError * 1.5);
    }
    case Function::atanh:
      if (size < 0x1p-900) return a.undecide();
      return relative(0.5 * f64_core::log1p(2 * x / (1 - x)), kLogError * 1.5);
    case Function::erf: {
      if (size <= 0.5) return relative(f64_core::erf_small(x), kSinError);
      if (size > 6) return just_inside(with_sign(1, x < 0));  // erfc(6) < 2^-55
      // 1 - erfc: erfc(1/2) = 0.48, so its error counts 0.93 at most.
      return relative(with_sign(1 - erfc_large(size), x < 0), kErfcError * 1.25);
    }
    case Function::erfc:
      if (size < 0.5) return relative(1 - f64_core::erf_small(x), kSinError * 1.5);
      if (x > 25.5) return tiny();
      if (x < -6) return just_inside(2);
      if (x < 0) return relative(1 + (1 - erfc_large(size)), kErfcError);
      return relative(erfc_large(x), kErfcError);
    case Function::sigmoid: {
      // 1/(1 + E) or E/(1 + E), E = exp(-|x|): 2.1 u, sum, quotient.
      if (x > 40) return just_inside(1);
      if (x < -690) return tiny();
      const double e = f64_core::exp(-size);
      return relative((x < 0 ? e : 1) / (1 + e), kExpError * 1.5);
    }
    case Function::softplus: {
      // max(x, 0) + log1p(E): relative error of E not amplified.
      if (x > 40) {  // x < softplus(x) < x + 2^-57
        const double y = next_up(x);
        if (!is_finite(y)) return a.undecide();
        return {y, y - x};
      }
      if (x < -690) return tiny();
      const double y = f64_core::log1p(f64_core::exp(-size));
      return relative(x > 0 ? x + y : y, kLogError * 1.5);
    }
    case Function::log_sigmoid:
      return minus(at(a, Function::softplus, -x));
  }
  return a.undecide();
}

// A bound of |f'| over the ball x, given y = f(x.mid); negative if there is none worth having.
ETALON_HD inline double slope(Function f, const V& x, const V& y) {
  constexpr double kNear = 1 + 0x1p-8;  // e^r and its kin over balls of r <= 2^-10
  const double m = x.mid, r = x.rad, size = abs_of(y.mid) + y.rad;
  const double low = (abs_of(m) - r) * (1 - 0x1p-50), high = (abs_of(m) + r) * (1 + 0x1p-50);
  const bool close = r <= 0x1p-10;
  const bool relatively_close = r <= abs_of(m) * 0x1p-10;
  switch (f) {
    case Function::exp:
    case Function::exp2:
    case Function::cosh:
    case Function::sigmoid:
      return close ? size * kNear : -1;
    case Function::expm1:
    case Function::sinh:
      return close ? (size + 1) * kNear : -1;
    case Function::log:
      return relatively_close ? 1 / low : -1;
    case Function::log2:
      return relatively_close ? 1.45 / low : -1;
    case Function::log10:
      return relatively_close ? 0.44 / low : -1;
    case Function::log1p: {
      const double room = (1 + m) * (1 - 0x1p-40) - r * kNear;
      return room > r * 0x1p10 ? 1 / room : -1;
    }
    case Function::cbrt:
      return relatively_close ? size / low : -1;
    case Function::sin:
    case Function::cos:
    case Function::tanh:
      return 1;
    case Function::tan:
      return (1 + size * size) * r < 0x1p-12 ? (1 + size * size) * kNear : -1;
    case Function::asin:
    case Function::acos:
      return 1 - high > 0x1p-40 ? 1 / sqrt_f64((1 - high) * (1 - 0x1p-12)) : -1;
    case Function::atan:
      return relatively_close ? kNear / (1 + low * low) : 1;
    case Function::asinh:
      return relatively_close ? kNear / sqrt_f64(1 + low * low) : 1;
    case Function::acosh:
      return low - 1 > r * 0x1p10 ? kNear / sqrt_f64((low - 1) * (low + 1)) : -1;
    case Function::atanh:
      return 1 - high > 0x1p-40 ? kNear / ((1 - high) * (1 + low)) : -1;
    case Function::erf:
      return 1.13;
    case Function::erfc:  // f'/f is below 2x + 1.5 for x > 0
      if (m <= 0) return 1.13;
      return r * (high + 1) < 0x1p-10 ? size * (2 * high + 1.5) * kNear : -1;
    case Function::softplus:
    case Function::log_sigmoid:  // sigmoid(x) = 1 - e^-softplus(x) <= softplus(x)
      return close ? (size * kNear < 1 ? size * kNear : 1) : 1;
    case Function::sqrt:
    case Function::rsqrt:
    case Function::reciprocal:
      break;
  }
  return -1;
}

}  // namespace f64_ball

ETALON_HD ETALON_APART RealF64::V RealF64::call(Function f, const V& x) {
  if (f == Function::sqrt && x.rad != 0) return sqrt(x);
  if (f == Function::rsqrt && x.rad != 0) return div({1, 0}, sqrt(x));
  if (f == Function::reciprocal && x.rad != 0) return div({1, 0}, x);
  double y;
  if (x.rad == 0) return special_value(f, x.mid, y) ? V{y, 0} : f64_ball::at(*this, f, x.mid);
  V r = special_value(f, x.mid, y) ? V{y, 0} : f64_ball::at(*this, f, x.mid);
  const double s = f64_ball::slope(f, x, r);
  if (s < 0 || !is_finite(r.mid)) return undecide();
  return {r.mid, (r.rad + s * x.rad) * kUp + kTiny};
}

// exp(y log|x|): an error of log is multiplied by |y log x| <= 700; f32 rounding then stays
// undecided about once in 10^5, and RealBig follows. Small halves and integers go by products and
// roots, exact where they are.
ETALON_HD ETALON_APART RealF64::V RealF64::pow(const V& x, const V& y) {
  if (x.rad == 0 && y.rad == 0) {
    double r;
    if (special_pow(x.mid, y.mid, r)) return {r, 0};
  } else if (is_nan(x.mid) || is_nan(y.mid)) {
    return {kNan, 0};
  } else if (x.rad == 0 && (x.mid == 0 || !is_finite(x.mid))) {
    // y is known only as a ball: no integer's parity, so the magnitude's power.
    if (!(abs_of(y.mid) > y.rad * kUp)) return undecide();
    return {(x.mid == 0) == (y.mid < 0) ? kInfinity : 0.0, 0};
  }
  if (y.rad == 0 && is_finite(x.mid)) {
    const double n = abs_of(y.mid);
    V p;
    bool direct = true;
    if (n == 1)
      p = x;
    else if (n == 2)
      p = mul(x, x);
    else if (n == 3)
      p = mul(mul(x, x), x);
    else if (n == 0.5)
      p = sqrt(x);
    else if (n == 0.75)
      p = mul(sqrt(x), sqrt(sqrt(x)));
    else if (n == 0.25)
      p = sqrt(sqrt(x));
    else if (n == 1.5)
      p = mul(x, sqrt(x));
    else
      direct = false;
    if (direct) return y.mid > 0 ? p : div({1, 0}, p);
  }
  const double size = abs_of(x.mid);
  if (!is_finite(size) || !is_finite(y.mid) || !(size > x.rad * 0x1p12)) return undecide();
  const bool negative = x.mid < 0 && is_odd_integer(y.mid);
  if (x.mid < 0 && (y.rad != 0 || !is_integer(y.mid))) return undecide();
  const V e = call(Function::exp, mul(y, call(Function::log, {size, x.rad})));
  return negative ? neg(e) : e;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
// NOLINTEND(misc-definitions-in-headers)
