// Correctly rounded values of the elementary functions by MPFR.
#pragma once

#include "engine/numerics/function.h"
#include "tests/mpfr_oracle.h"

namespace etalon {

// softplus by its definition at 800 bits (f64 results: 3000, for their smallest inputs): for |x| >
// 200 the exponential, below 2^-288, may be that of 200 without moving any rounded value, in any
// mode.
inline void mpfr_softplus(mpfr_t r, double x) {
  const mpfr_prec_t precision = mpfr_get_prec(r);
  Mpfr e(precision), v(precision);
  const double size = abs_of(x) > 200 ? 200 : abs_of(x);
  mpfr_set_d(e.v, -size, MPFR_RNDN);
  mpfr_exp(e.v, e.v, MPFR_RNDN);
  mpfr_log1p(e.v, e.v, MPFR_RNDN);
  mpfr_set_d(v.v, x > 0 ? x : 0, MPFR_RNDN);
  mpfr_add(r, v.v, e.v, MPFR_RNDN);
}

inline double mpfr_function(Function f, double x, DType to, Round mode) {
  if (f == Function::rsqrt && x == 0) return with_sign(kInfinity, sign_bit(x));  // MPFR: always +
  const mpfr_prec_t precision = to == DType::f64 ? 3000 : 800;
  Mpfr v(53), w(precision);
  mpfr_set_d(v.v, x, MPFR_RNDN);
  if (f == Function::softplus && is_finite(x)) mpfr_softplus(w.v, x);
  if (f == Function::log_sigmoid && is_finite(x)) {
    mpfr_softplus(w.v, -x);
    mpfr_neg(w.v, w.v, MPFR_RNDN);
  }
  if (f == Function::softplus && !is_finite(x))
    mpfr_set_d(w.v, x > 0 ? x : x < 0 ? 0.0 : x, MPFR_RNDN);
  if (f == Function::log_sigmoid && !is_finite(x)) mpfr_set_d(w.v, x > 0 ? -0.0 : x, MPFR_RNDN);
  if (f == Function::sigmoid) {
    Mpfr e(precision);
    const double size = abs_of(x) > 200 && is_finite(x) ? with_sign(200, sign_bit(x)) : x;
    mpfr_set_d(e.v, -size, MPFR_RNDN);
    mpfr_exp(e.v, e.v, MPFR_RNDN);
    mpfr_add_ui(e.v, e.v, 1, MPFR_RNDN);
    mpfr_ui_div(w.v, 1, e.v, MPFR_RNDN);
  }
  return mpfr_rounded(to, mode, [&](mpfr_t r, mpfr_rnd_t m) {
    switch (f) {
      case Function::exp:
        return mpfr_exp(r, v.v, m);
      case Function::exp2:
        return mpfr_exp2(r, v.v, m);
      case Function::expm1:
        return mpfr_expm1(r, v.v, m);
      case Function::log:
        return mpfr_log(r, v.v, m);
      case Function::log2:
        return mpfr_log2(r, v.v, m);
      case Function::log10:
        return mpfr_log10(r, v.v, m);
      case Function::log1p:
        return mpfr_log1p(r, v.v, m);
      case Function::sqrt:
        return mpfr_sqrt(r, v.v, m);
      case Function::rsqrt:
        return mpfr_rec_sqrt(r, v.v, m);
      case Function::cbrt:
        return mpfr_cbrt(r, v.v, m);
      case Function::reciprocal:
        return mpfr_ui_div(r, 1, v.v, m);
      case Function::sin:
        return mpfr_sin(r, v.v, m);
      case Function::cos:
        return mpfr_cos(r, v.v, m);
      case Function::tan:
        return mpfr_tan(r, v.v, m);
      case Function::asin:
        return mpfr_asin(r, v.v, m);
      case Function::acos:
        return mpfr_acos(r, v.v, m);
      case Function::atan:
        return mpfr_atan(r, v.v, m);
      case Function::sinh:
        return mpfr_sinh(r, v.v, m);
      case Function::cosh:
        return mpfr_cosh(r, v.v, m);
      case Function::tanh:
        return mpfr_tanh(r, v.v, m);
      case Function::asinh:
        return mpfr_asinh(r, v.v, m);
      case Function::acosh:
        return mpfr_acosh(r, v.v, m);
      case Function::atanh:
        return mpfr_atanh(r, v.v, m);
      case Function::erf:
        return mpfr_erf(r, v.v, m);
      case Function::erfc:
        return mpfr_erfc(r, v.v, m);
      case Function::sigmoid:
      case Function::softplus:
      case Function::log_sigmoid:
        return mpfr_set(r, w.v, m);
    }
    return 0;
  });
}

}  // namespace etalon
