// Logarithms of lanes.h, what is made of them, and roots.
#pragma once

#include "kernels/activation/lanes_exp_inl.h"

namespace etalon {

template <class D>
struct LaneLog : LaneBase<D> {
  using Base = LaneBase<D>;
  using R = typename D::Reg;
  using Base::c, Base::horner, Base::quotient;

  // log((1+s)/(1-s))
  template <int N>
  ETALON_INLINE static R log_of_ratio(const double (&p)[N], R s) {
    const R ss = D::mul(s, s);
    return D::fma(D::mul(s, ss), horner(p, ss), D::add(s, s));
  }
  // x > 0 normal: 2^k m, m in [0.707, 1.414).
  struct Parts {
    R k, m;
  };
  ETALON_INLINE static Parts parts(R x) {
    const auto b = D::bits64(x);
    const auto biased = D::template shift_right<52>(D::add64(
        b, D::set64(static_cast<std::int64_t>((std::uint64_t{1024} << 52) - 0x3fe6a09e00000000U))));
    return {
        D::sub(D::from_bits64(D::or64(biased, D::set64(0x4330000000000000))), c(0x1p52 + 1024)),
        D::from_bits64(D::add64(D::sub64(b, D::template shift_left<52>(biased)),
                                D::set64(static_cast<std::int64_t>(std::uint64_t{1024} << 52))))};
  }
  // log m by s = f/(2 + f), f = m - 1 exact: 4 u. Quick: the quotient's 2^-41.9, at most 1.04
  // times, and 2^-43 of the polynomial.
  template <bool Fine>
  ETALON_INLINE static R log_by_ratio(R f, R below) {
    if constexpr (D::quick && !Fine)
      return log_of_ratio(polynomials::kLogShort, quotient(f, below));
    else
      return log_of_ratio(polynomials::kLog, D::div(f, below));
  }
  template <bool Fine = false>
  ETALON_INLINE static R log_near_1(R m) {
    return log_by_ratio<Fine>(D::sub(m, c(1)), D::add(m, c(1)));
  }
  ETALON_INLINE static R with_ln2(R k, R p) {
    return D::fma(k, c(0x1.62e42fefa0000p-1), D::fma(k, c(0x1.cf79abc9e3b3ap-40), p));
  }
  // Where k is not 0 the sum with k ln2 does not cancel below 0.34; so for the other bases (0.5,
  // 0.15), whose factor is one rounding and its own error.
  template <bool Fine = false>
  ETALON_INLINE static R log(R x) {
    const Parts t = parts(x);
    return with_ln2(t.k, log_near_1<Fine>(t.m));
  }
  ETALON_INLINE static R log2(R x) {
    const Parts t = parts(x);
    return D::fma(log_near_1(t.m), c(0x1.71547652b82fep0), t.k);
  }
  ETALON_INLINE static R log10(R x) {  // log10 of 2 on the grid 2^-41: exact products
    const Parts t = parts(x);
    const R p = D::mul(log_near_1(t.m), c(0x1.bcb7b1526e50ep-2));
    return D::fma(t.k, c(0x1.34413509f8000p-2), D::fma(t.k, c(-0x1.80433b83b532ap-44), p));
  }
  // log(1 + w), w > -1, w exact or with an error of its own that does not grow (w/(1 + w) <= log(1
  // + w)): where 1 + w lies in [0.707, 1.414), m - 1 is w itself; elsewhere the rounding of 1 + w
  // is u of a result above 0.34. The sums lose the sign of -0, which is put back.
  ETALON_INLINE static R log1p(R w) {
    const Parts t = parts(D::add(c(1), w));
    const R f = D::select(D::less(D::abs(t.k), c(0.5)), w, D::sub(t.m, c(1)));
    const R p = log_by_ratio<false>(f, D::add(c(2), f));
    return D::copy_sign(with_ln2(t.k, p), w);
  }
  // log(1 + e), 0 <= e <= 1.
  ETALON_INLINE static R log1p_unit(R e) {
    if constexpr (D::quick)
      return log_of_ratio(polynomials::kLog1pShort, quotient(e, D::add(e, c(2))));
    else
      return log_of_ratio(polynomials::kLog1p, D::div(e, D::add(e, c(2))));
  }
  // max(x, 0) + log1p(e^-|x|): the exponential's error counts at most once. NaN passes by max.
  ETALON_INLINE static R softplus(R x) {
    const R e = LaneExp<D>::template exp<-1.0>(D::min(c(200), D::abs(x)));
    return D::add(D::max(c(0), x), log1p_unit(e));
  }
  // log1p of a + a^2/(1 + sqrt(1 + a^2)), of t + sqrt(t (x + 1)) with t = x - 1, and half of that
  // of 2 a/(1 - a): 5 u more.
  ETALON_INLINE static R asinh(R x) {
    const R a = D::abs(x), aa = D::mul(a, a);
    const R w = D::add(a, D::div(aa, D::add(c(1), D::sqrt(D::add(c(1), aa)))));
    return D::copy_sign(log1p(w), x);
  }
  ETALON_INLINE static R acosh(R x) {
    const R t = D::sub(x, c(1));
    return log1p(D::add(t, D::sqrt(D::mul(t, D::add(x, c(1))))));
  }
  ETALON_INLINE static R atanh(R x) {
    const R a = D::abs(x);
    return D::copy_sign(D::mul(c(0.5), log1p(D::div(D::add(a, a), D::sub(c(1), a)))), x);
  }

  // x^(-1/3) from the exponent within 5 %, by a line through the bits' upper half; h = 1 - x r^3
  // becomes 0.43 h^4 with r (1 + h/3 + 2/9 h^2 + 14/81 h^3): below 2^-53 after two steps, a third
  // of that in r. cbrt = x r^2: 2 * 2 u and two products.
  ETALON_INLINE static R cbrt(R x) {
    const R a = D::abs(x);
    const R upper = D::sub(D::from_bits64(D::or64(D::template shift_right<32>(D::bits64(a)),
                                                  D::set64(0x4330000000000000))),
                           c(0x1p52));
    const R line = D::fma(upper, c(-1.0 / 3), c(0x1p52 + 0x1p20 * (1023 - 0.045) * 4 / 3));
    R r = D::from_bits64(D::template shift_left<32>(D::bits64(line)));
    simd::unroll<2>([&](auto) ETALON_INLINE_LAMBDA {
      const R h = D::fma(D::mul(D::neg(a), r), D::mul(r, r), c(1));
      const R q = D::fma(h, D::fma(h, c(14.0 / 81), c(2.0 / 9)), c(1.0 / 3));
      r = D::fma(D::mul(r, h), q, r);
    });
    const R y = D::mul(D::mul(x, r), r);
    return D::select(D::less(a, c(0x1p-200)), x, y);  // zeros
  }
};

}  // namespace etalon
