// Exponentials of lanes.h and what is made of one: logistic, hyperbolic and their activations.
#pragma once

#include "kernels/activation/lanes_base_inl.h"

namespace etalon {

template <class D>
struct LaneExp : LaneBase<D> {
  using Base = LaneBase<D>;
  using R = typename D::Reg;
  using Base::c, Base::clamp, Base::clamp_input, Base::even_odd, Base::horner, Base::quotient,
      Base::reciprocal, Base::finite_only;

  // e^(factor w), |factor w| <= 250, the factor +-1, 2 or -1/2.
  //
  // Fine: k, r with factor w = k ln2 + r. e^r - 1 = r + r^2 q(r) with 1.2 u of its value (q is at
  // most r/5 of it), and 2^k. The reduction errs by |k| 2^-85 and u of r.
  //
  // Quick: factor w = n ln2/16 + r, |r| <= ln2/32; 2^(n/16) is one of sixteen doubles of two
  // registers, n's low bits choose it and the others its exponent. The product n ln2/16 has one
  // rounded factor: 250 u, 2^-45, of e^r. The polynomial of e^r adds 2^-38.5, altogether 2^-38.49;
  // that of e^r - 1 2^-41 of it.
  struct Reduced {
    R r, shifted;
  };
  template <double kFactor>
  ETALON_INLINE static Reduced reduce(R w) {
    const R magic = c(0x1.8p52);
    const R shifted = D::fma(w, c(0x1.71547652b82fep4 * kFactor), magic);
    return {D::fnma(D::sub(shifted, magic), c(0x1.62e42fefa39efp-5 / kFactor), w), shifted};
  }
  template <double kFactor = 1.0>
  ETALON_INLINE static R exp(R w) {
    if constexpr (D::quick) {
      const Reduced t = reduce<kFactor>(w);
      return D::mul(Base::template horner_scaled<kFactor>(polynomials::kExpSixteenth, t.r),
                    D::power_sixteenth(D::bits64(t.shifted)));
    } else {
      return exp_fine(times<kFactor>(w));
    }
  }
  // 2^k p + (2^k - 1): exact second part; for k <= -1 and k >= 1 at most 2.4 times the errors.
  // Quick: the result is 0.0219 at least where the power is not 1, whose rounding then counts
  // 2^-47.5; the polynomial's 2^-41 are of p, which is 0.0219 at most. Zeros come out as +0.
  template <double kFactor = 1.0>
  ETALON_INLINE static R expm1(R w) {
    if constexpr (D::quick) {
      const Reduced t = reduce<kFactor>(w);
      const R scale = D::power_sixteenth(D::bits64(t.shifted));
      const R p =
          D::mul(Base::template horner_scaled<kFactor, 1>(polynomials::kExpm1Sixteenth, t.r), t.r);
      return D::fma(scale, p, D::sub(scale, c(1)));
    } else {
      const Parts e = parts_fine(times<kFactor>(w));
      return D::fma(e.scale, e.p, D::sub(e.scale, c(1)));
    }
  }
  template <double kFactor>
  ETALON_INLINE static R times(R w) {
    if constexpr (kFactor == 1.0)
      return w;
    else
      return D::mul(c(kFactor), w);
  }

  struct Parts {
    R p, scale;
  };
  ETALON_INLINE static Parts parts_fine(R x) {
    const R magic = c(0x1.8p52 + 1023);
    const R shifted = D::fma(x, c(0x1.71547652b82fep0), magic);
    const R k = D::sub(shifted, magic);
    R r = D::fma(k, c(-0x1.62e42fefa0000p-1), x);  // ln2 on the grid 2^-41: exact
    r = D::fma(k, c(-0x1.cf79abc9e3b3ap-40), r);
    const R q = even_odd(polynomials::kExpm1, r);
    return {D::fma(D::mul(r, r), q, r),
            D::from_bits64(D::template shift_left<52>(D::bits64(shifted)))};
  }
  ETALON_INLINE static R exp_fine(R x) {
    const Parts e = parts_fine(x);
    return D::fma(e.scale, e.p, e.scale);
  }
  // |x| <= 200: x - k is exact.
  ETALON_INLINE static R exp2(R x) {
    if constexpr (D::quick) {
      const R magic = c(0x1.8p48);
      const R shifted = D::add(x, magic);
      return D::mul(horner(polynomials::kExp2Sixteenth, D::sub(x, D::sub(shifted, magic))),
                    D::power_sixteenth(D::bits64(shifted)));
    } else {
      const R magic = c(0x1.8p52 + 1023);
      const R shifted = D::add(x, magic);
      const R r = D::mul(D::sub(x, D::sub(shifted, magic)), c(0x1.62e42fefa39efp-1));
      const R p = D::fma(D::mul(r, r), even_odd(polynomials::kExpm1, r), r);
      const R scale = D::from_bits64(D::template shift_left<52>(D::bits64(shifted)));
      return D::fma(scale, p, scale);
    }
  }

  // e/(e + 2), e = expm1(2x). The quotient's relative error is that of e times 2/(e + 2), at most
  // twice it, but near e = -1 that is an absolute error of a small power.
  ETALON_INLINE static R tanh(R x) {
    const R held = clamp_input(x, -20, 20), e = expm1<2.0>(held);
    return D::copy_sign(quotient(e, D::add(e, c(2))), held);
  }
  // 1/(1 + e^-x): the exponential's error counts e^-x/(1 + e^-x) times; 2^288 at most.
  ETALON_INLINE static R sigmoid(R x) {
    return reciprocal(D::add(exp<-1.0>(clamp_input(x, -200, 200)), c(1)));
  }
  // (E + E/(E + 1))/2, E = expm1(|x|); (e + 1/e)/2.
  ETALON_INLINE static R sinh(R x) {
    const R e = expm1(D::min(c(100), D::abs(x)));
    return D::copy_sign(D::mul(c(0.5), D::add(e, quotient(e, D::add(e, c(1))))), x);
  }
  ETALON_INLINE static R cosh(R x) {
    const R e = exp(D::min(c(100), D::abs(x)));
    return D::mul(c(0.5), D::add(e, reciprocal(e)));
  }

  // In these the last factor is x itself: NaN and infinities come out as NaN and infinite, which
  // the rounding test refuses. The other factor is below 2^-280 at the lower clamp, and 1 at the
  // upper one.
  ETALON_INLINE static R silu(R x) {
    return D::mul(x, reciprocal(D::add(exp<-1.0>(clamp_input(x, -200, 200)), c(1))));
  }
  // z = 2 sqrt(2/pi) (x + 0.044715 x^3) errs by 5 u, its exponential by |z| times that, |z| <= 110
  // while the result is not 0: 550 u. At the clamps |z| = 245.
  ETALON_INLINE static R gelu_tanh(R x) {
    const R v = clamp(x, -14.6, 14.6);
    constexpr double kSlope = 0x1.9884533d43651p0;
    const R z = D::mul(D::fma(D::mul(v, v), c(0.044715 * kSlope), c(kSlope)), v);
    return D::mul(x, reciprocal(D::add(exp<-1.0>(z), c(1))));
  }
  // x t/(t + 2), t = e(e + 2), e = e^x: its error counts 4(e + 1)/((e + 2)(e^2 + 2e + 2)) <= 1
  // times. t is 2^577 at most.
  ETALON_INLINE static R mish(R x) {
    const R e = exp(clamp_input(x, -200, 200));
    const R t = D::mul(e, D::add(e, c(2)));
    return D::mul(x, quotient(t, D::add(t, c(2))));
  }
  // Of x <= 0; what comes out above that is not used. Products with alpha and gamma: two roundings
  // more. -inf gives -alpha.
  ETALON_INLINE static R elu(R x, double alpha) {
    const R e = D::copy_sign(expm1(D::max(c(-200), x)), x);
    return D::select(D::less(c(0), x), x, D::mul(c(alpha), e));
  }
  // x/alpha errs by u, e^z by |z| times that: 200 u.
  ETALON_INLINE static R celu(R x, double alpha) {
    const R z = clamp(D::div(x, c(alpha)), -200, 0);
    const R e = D::copy_sign(expm1(z), z);
    return finite_only(x, D::select(D::less(c(0), x), x, D::mul(c(alpha), e)));
  }
};

}  // namespace etalon
