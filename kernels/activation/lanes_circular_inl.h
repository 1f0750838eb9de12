// Circular functions of lanes.h and their inverses.
#pragma once

#include "kernels/activation/lanes_base_inl.h"

namespace etalon {

template <class D>
struct LaneCircular : LaneBase<D> {
  using Base = LaneBase<D>;
  using R = typename D::Reg;
  using M = typename D::Test;
  using Base::c, Base::even_odd;

  // x = quadrant pi/2 + r, |r| <= 0.7874, r with a relative error of 6 u. The quadrant stands in
  // the low bits of `shifted`. No float but 0 comes nearer to a multiple of pi/2 than 2^-31.
  struct Angle {
    R r;
    typename D::Int quadrant;
  };
  ETALON_INLINE static Angle reduce_angle(R x) {
    // Cody, Waite: below 2^27 the first product with fma is exact (pi/2 in 53 bits has the grid
    // 2^-52, and |r| < 1), the second rounds once; what is left out, k 2^-109, is below 4 u of r.
    // All products of k = 0 are -0, so that -0 stays what it is.
    const R magic = c(0x1.8p52);
    R shifted = D::fma(x, c(0x1.45f306dc9c883p-1), magic);
    const R k = D::sub(shifted, magic);
    R r = D::fma(k, c(-0x1.921fb54442d18p0), x);
    r = D::fma(k, c(-0x1.1a62633145c07p-54), r);
    const R size = D::abs(x);
    const M large = D::not_less(size, c(0x1p27));
    if (D::to_bits(large) != 0) {
      // Payne, Hanek, by a row of 2/pi for each binade: two exact products, and what is left after
      // the nearest integer has gone is exact too where it is below 2^-4, else it rounds once; the
      // third part adds 2^-85.
      const R inside = D::min(D::max(size, c(0x1p27)), c(0x1p127));
      const auto row = D::template shift_left<2>(
          D::sub64(D::template shift_right<52>(D::bits64(inside)), D::set64(1023 + 27)));
      const R p = D::mul(x, D::gather(polynomials::kTwoOverPi, row));
      const R q = D::mul(x, D::gather(polynomials::kTwoOverPi + 1, row));
      const R far = D::add(D::add(p, q), magic);
      const R rest = D::add(D::sub(p, D::sub(far, magic)), q);
      const R turns = D::fma(x, D::gather(polynomials::kTwoOverPi + 2, row), rest);
      r = D::select(large, D::mul(turns, c(0x1.921fb54442d18p0)), r);
      shifted = D::select(large, far, shifted);
    }
    return {r, D::bits64(shifted)};
  }
  // r (1 + z S(z)) and 1 + z C(z): 2 u beside the 6 u of r, which count at most once (r cot r <= 1,
  // r tan r <= 0.79).
  ETALON_INLINE static R sin_near_0(R r, R z) {
    return D::mul(r, D::fma(z, even_odd(polynomials::kSin, z), c(1)));
  }
  ETALON_INLINE static R cos_near_0(R z) { return D::fma(z, even_odd(polynomials::kCos, z), c(1)); }
  template <int kQuarter>  // sin(x + kQuarter pi/2)
  ETALON_INLINE static R sine(R x) {
    const Angle t = reduce_angle(x);
    const R z = D::mul(t.r, t.r);
    const auto quadrant = D::add64(t.quadrant, D::set64(kQuarter));
    const R y = D::select(D::top_bit(D::template shift_left<63>(quadrant)), cos_near_0(z),
                          sin_near_0(t.r, z));
    const auto sign = D::and64(D::template shift_left<62>(quadrant),
                               D::set64(static_cast<std::int64_t>(std::uint64_t{1} << 63)));
    return D::flip(y, sign);
  }
  ETALON_INLINE static R tan(R x) {
    const Angle t = reduce_angle(x);
    const R z = D::mul(t.r, t.r), s = sin_near_0(t.r, z), k = cos_near_0(z);
    const auto odd = D::template shift_left<63>(t.quadrant);
    const M swap = D::top_bit(odd);
    return D::flip(D::div(D::select(swap, k, s), D::select(swap, s, k)), odd);
  }

  // x (1 + z A(z)), |x| <= sqrt(2) - 1; above that by (a - 1)/(a + 1) and pi/4, above 1 + sqrt(2)
  // by -1/a and pi/2: the quotient's 3 u and the polynomial's, less than 0.42 beside a result of
  // 0.39 or more.
  ETALON_INLINE static R atan(R x) {
    const R a = D::abs(x);
    const M middle = D::less(c(0x1.a827999fcef32p-2), a);
    const M far = D::less(c(0x1.3504f333f9de6p1), a);
    const R above = D::select(far, c(-1), D::select(middle, D::sub(a, c(1)), a));
    const R below = D::select(far, a, D::select(middle, D::add(a, c(1)), c(1)));
    const R base =
        D::select(far, c(0x1.921fb54442d18p0), D::select(middle, c(0x1.921fb54442d18p-1), c(0)));
    const R t = D::div(above, below), z = D::mul(t, t);
    const R p = D::fma(z, even_odd(polynomials::kAtan, z), c(1));
    return D::copy_sign(D::fma(t, p, base), x);
  }
  // asin t = t (1 + z P(z)) for t = a <= 1/2, or t = sqrt((1 - a)/2), whose double is left to a
  // quarter turn. 1 - a is exact; beyond 1 the root is NaN. The result of the second is above 0.52,
  // the double at most 1.05.
  struct Arc {
    M large;
    R p;
  };
  ETALON_INLINE static Arc arc(R a) {
    const M large = D::less(c(0.5), a);
    const R z = D::select(large, D::mul(c(0.5), D::sub(c(1), a)), D::mul(a, a));
    const R t = D::select(large, D::sqrt(z), a);
    return {large, D::mul(t, D::fma(z, even_odd(polynomials::kAsin, z), c(1)))};
  }
  ETALON_INLINE static R asin(R x) {
    const Arc t = arc(D::abs(x));
    return D::copy_sign(D::select(t.large, D::fma(c(-2), t.p, c(0x1.921fb54442d18p0)), t.p), x);
  }
  ETALON_INLINE static R acos(R x) {
    const Arc t = arc(D::abs(x));
    const R near = D::sub(c(0x1.921fb54442d18p0), D::copy_sign(t.p, x));
    const R twice = D::add(t.p, t.p);
    const R far = D::select(D::less(x, c(0)), D::sub(c(0x1.921fb54442d18p1), twice), twice);
    return D::select(t.large, far, near);
  }
};

}  // namespace etalon
