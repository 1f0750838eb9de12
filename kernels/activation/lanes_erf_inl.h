// Error functions of lanes.h and GELU.
//
// erfc(a) = e^(-a^2) erfcx(a). The square of a float is exact. erfcx is a quotient of polynomials
// whose coefficients are all positive, so that its evaluation errs by some ten u and its
// approximation by 2^-39.4; quick: the quotient's 2^-41.9 more.
#pragma once

#include "kernels/activation/lanes_exp_inl.h"

namespace etalon {

template <class D>
struct LaneErf : LaneBase<D> {
  using Base = LaneBase<D>;
  using Exp = LaneExp<D>;
  using R = typename D::Reg;
  using Base::c, Base::horner, Base::quotient;

  // 0 <= a <= 10.4. With the exponential's 2^-38.49: below 2^-37.7.
  ETALON_INLINE static R erfc_positive(R a) {
    using namespace polynomials;
    const R e = Exp::template exp<-1.0>(D::mul(a, a));
    return quotient(D::mul(e, horner(kErfcxAbove, a)), horner(kErfcxBelow, a));
  }
  ETALON_INLINE static R erf(R x) {
    const R a = D::min(c(6), D::abs(x));
    const R small = D::mul(a, horner(polynomials::kErf, D::mul(a, a)));
    const R large = D::sub(c(1), erfc_positive(a));  // erfc <= 0.48: its error counts 0.93
    return D::copy_sign(D::select(D::less(a, c(0.5)), small, large), x);
  }
  ETALON_INLINE static R erfc(R x) {
    const R y = erfc_positive(D::min(c(10.4), D::abs(x)));
    return D::select(D::less(x, c(0)), D::sub(c(2), y), y);
  }
  // x g for x <= 0 and x (1 - g) above, g = erfc(|x|/sqrt(2))/2 <= 1/2: its error counts at most
  // once. The last factor is x, as for silu; below -14.73, where the result is less than half the
  // smallest float, the quotient need not be near erfcx, and e^(-x^2/2) falls to 2^-349.
  ETALON_INLINE static R gelu(R x) {
    using namespace polynomials;
    const R a = D::min(c(22), D::abs(x));
    const R e = Exp::template exp<-0.5>(D::mul(a, a));
    const R g = quotient(D::mul(e, horner(kErfcxGeluAbove, a)), horner(kErfcxGeluBelow, a));
    return D::mul(x, D::select(D::top_bit(D::bits64(x)), g, D::sub(c(1), g)));
  }
};

}  // namespace etalon
