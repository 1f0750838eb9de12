// Formulas at 3000 bits, written as in a textbook: the oracle of definitions. A cancellation that
// ours avoids costs this one a few hundred of its bits.
#pragma once

#include <mpfr.h>

#include "tests/mpfr_oracle.h"

namespace etalon {

class Number {
 public:
  static constexpr mpfr_prec_t kBits = 3000;
  Number(double x = 0) {  // NOLINT: formulas mix numbers and literals
    mpfr_init2(v_, kBits);
    mpfr_set_d(v_, x, MPFR_RNDN);
  }
  Number(const Number& o) {
    mpfr_init2(v_, kBits);
    mpfr_set(v_, o.v_, MPFR_RNDN);
  }
  Number& operator=(const Number& o) {
    mpfr_set(v_, o.v_, MPFR_RNDN);
    return *this;
  }
  ~Number() { mpfr_clear(v_); }

  friend Number operator+(const Number& a, const Number& b) { return binary(mpfr_add, a, b); }
  friend Number operator-(const Number& a, const Number& b) { return binary(mpfr_sub, a, b); }
  friend Number operator*(const Number& a, const Number& b) { return binary(mpfr_mul, a, b); }
  friend Number operator/(const Number& a, const Number& b) { return binary(mpfr_div, a, b); }
  Number operator-() const { return unary(mpfr_neg, *this); }
  friend bool operator<(const Number& a, const Number& b) { return mpfr_less_p(a.v_, b.v_) != 0; }
  bool is_finite() const { return mpfr_number_p(v_) != 0; }
  bool is_zero() const { return mpfr_zero_p(v_) != 0; }

  using Unary = int(mpfr_t, const mpfr_t, mpfr_rnd_t);
  using Binary = int(mpfr_t, const mpfr_t, const mpfr_t, mpfr_rnd_t);
  template <class F>
  static Number unary(F f, const Number& a) {
    Number r;
    f(r.v_, a.v_, MPFR_RNDN);
    return r;
  }
  template <class F>
  static Number binary(F f, const Number& a, const Number& b) {
    Number r;
    f(r.v_, a.v_, b.v_, MPFR_RNDN);
    return r;
  }
  static Number next_toward_zero(const Number& a) {
    Number r(a);
    mpfr_signbit(r.v_) != 0 ? mpfr_nextabove(r.v_) : mpfr_nextbelow(r.v_);
    return r;
  }
  static Number pi() {
    Number r;
    mpfr_const_pi(r.v_, MPFR_RNDN);
    return r;
  }
  double rounded(DType to, Round mode = Round::nearest_even) const {
    return mpfr_rounded(to, mode, [&](mpfr_t r, mpfr_rnd_t rnd) { return mpfr_set(r, v_, rnd); });
  }

 private:
  mpfr_t v_;
};

inline Number exp(const Number& a) { return Number::unary(mpfr_exp, a); }
inline Number log(const Number& a) { return Number::unary(mpfr_log, a); }
inline Number erf(const Number& a) { return Number::unary(mpfr_erf, a); }
inline Number tanh(const Number& a) { return Number::unary(mpfr_tanh, a); }
inline Number sqrt(const Number& a) { return Number::unary(mpfr_sqrt, a); }
inline Number abs(const Number& a) { return Number::unary(mpfr_abs, a); }
inline Number pow(const Number& a, const Number& b) { return Number::binary(mpfr_pow, a, b); }

}  // namespace etalon
