// MPFR as the oracle of what correctly rounded means: precision, exponent range and subnormals of a
// format, in any of the four modes.
#pragma once

#include <mpfr.h>

#include "engine/numerics/fp.h"

namespace etalon {

inline mpfr_rnd_t mpfr_mode(Round mode) {
  switch (mode) {
    case Round::toward_zero:
      return MPFR_RNDZ;
    case Round::upward:
      return MPFR_RNDU;
    case Round::downward:
      return MPFR_RNDD;
    default:
      return MPFR_RNDN;
  }
}

// f(r, mode) computes one MPFR operation into r and returns its ternary value. Other variables must
// be made before, in the default exponent range.
template <class F>
double mpfr_rounded(DType to, Round mode, F&& f) {
  const FloatFormat format = format_of(to);
  const mpfr_exp_t old_min = mpfr_get_emin(), old_max = mpfr_get_emax();
  mpfr_t r;
  mpfr_init2(r, format.precision);
  mpfr_set_emin(format.min_exponent - format.precision + 2);
  mpfr_set_emax(format.max_exponent + 1);
  int ternary = f(r, mpfr_mode(mode));
  ternary = mpfr_check_range(r, ternary, mpfr_mode(mode));
  mpfr_subnormalize(r, ternary, mpfr_mode(mode));
  mpfr_set_emin(old_min);
  mpfr_set_emax(old_max);
  const double result = canonical(mpfr_get_d(r, MPFR_RNDN));
  mpfr_clear(r);
  return result;
}

struct Mpfr {
  mpfr_t v;
  explicit Mpfr(mpfr_prec_t precision = 53) {
    mpfr_init2(v, precision);
    mpfr_set_zero(v, 1);
  }
  ~Mpfr() { mpfr_clear(v); }
  Mpfr(const Mpfr&) = delete;
  Mpfr& operator=(const Mpfr&) = delete;
};

inline constexpr Round kRounds[] = {Round::nearest_even, Round::toward_zero, Round::upward,
                                    Round::downward};
inline constexpr DType kFloatTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};

}  // namespace etalon
