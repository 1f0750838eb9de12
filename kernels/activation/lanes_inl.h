// The formulas of lanes.h over a vector of doubles D (lanes_avx2.h, lanes_avx512.h).
//
// A first pass need not be better than its rounding test's neighbours are rare: with an error of
// 2^-39 one input in some ten thousand goes to the definition, which costs less than a term of a
// polynomial. So where the processor can (D::quick: AVX-512's approximate reciprocals and
// permutations of registers), quotients err by 2^-41.9 and polynomials stop there too; what is used
// for sums and powers, whose errors grow, keeps all bits (Fine).
//
// Intermediate bits need not agree between instruction sets, only stay within the error that the
// rounding test allows for; fma is used freely. Errors in units of u = 2^-53, u for each operation
// without a note. Every function but erfc's kin (52 u) stays below 30 u where all steps are fine,
// below 2^-39.8 where they are quick, and is tested with kPure = 2^-39; compositions that amplify
// an error have their own bound beside them.
//
// Clamps: outside them an f32 result no longer depends on x, because it has overflowed, underflowed
// below half the smallest subnormal, or met its limit; the value at the clamp rounds the same. The
// order of operands in max and min lets NaN pass.
#pragma once

#include "kernels/activation/lanes.h"
#include "kernels/activation/polynomials.h"
#include "kernels/simd/unroll.h"

namespace etalon {

template <class D>
struct LaneMath {
  using R = typename D::Reg;
  using M = typename D::Test;

  static constexpr double kPure = 0x1p-39;

  ETALON_INLINE static R c(double x) { return D::set1(x); }
  ETALON_INLINE static R clamp(R x, double low, double high) {
    return D::min(c(high), D::max(c(low), x));
  }
  template <int N>
  ETALON_INLINE static R horner(const double (&p)[N], R x) {
    R r = c(p[N - 1]);
    simd::unroll<N - 1>([&](auto i) ETALON_INLINE_LAMBDA { r = D::fma(r, x, c(p[N - 2 - i])); });
    return r;
  }
  // Even and odd powers apart: half the latency of a long Horner chain.
  template <int N>
  ETALON_INLINE static R even_odd(const double (&p)[N], R x) {
    const R xx = D::mul(x, x);
    R a = c(p[N - 1]), b = c(p[N - 2]);
    simd::unroll<N / 2 - 1>([&](auto i) ETALON_INLINE_LAMBDA {
      a = D::fma(a, xx, c(p[N - 3 - 2 * i]));
      b = D::fma(b, xx, c(p[N - 4 - 2 * i]));
    });
    if constexpr (N % 2 == 0) return D::fma(a, x, b);
    a = D::fma(a, xx, c(p[0]));
    return D::fma(b, x, a);
  }

  // a/b, b normal and of moderate size: r errs by 2^-14, e = 1 - b r; r (1 + e + e^2) by e^3.
  ETALON_INLINE static R quotient(R a, R b) {
    if constexpr (D::quick) {
      const R r = D::reciprocal14(b);
      const R e = D::fnma(b, r, c(1));
      return D::mul(a, D::fma(r, D::fma(e, e, e), r));
    } else {
      return D::div(a, b);
    }
  }

  // |x| <= 700: x = k ln2 + r; e^r - 1 = r + r^2 q(r) with 1.2 u of its value (q is at most r/5 of
  // it), and 2^k. The reduction errs by |k| 2^-85 and u of r.
  struct Exp {
    R p, scale;
  };
  //
  // Quick, |x| <= 200: x = n ln2/8 + r; 2^(n/8) is one of eight doubles of a register, n's low bits
  // choose it and the others its exponent. The product n ln2/8 has one rounded factor, n 2^-57 <=
  // 2^-45.8; the polynomial adds 2^-48 of e^r, 2^-43.4 of e^r - 1.
  template <bool Fine>
  ETALON_INLINE static Exp exp_parts(R x) {
    if constexpr (D::quick && !Fine) {
      const R magic = c(0x1.8p52);
      const R shifted = D::fma(x, c(0x1.71547652b82fep3), magic);
      return exp_eighth(D::fnma(D::sub(shifted, magic), c(0x1.62e42fefa39efp-4), x), shifted);
    } else {
      return exp_fine(x);
    }
  }
  ETALON_INLINE static Exp exp_eighth(R r, R shifted) {
    const R q = even_odd(polynomials::kExpm1Eighth, r);
    return {D::fma(D::mul(r, r), q, r), D::power_eighth(D::bits64(shifted))};
  }
  ETALON_INLINE static Exp exp_fine(R x) {
    const R magic = c(0x1.8p52 + 1023);
    const R shifted = D::fma(x, c(0x1.71547652b82fep0), magic);
    const R k = D::sub(shifted, magic);
    R r = D::fma(k, c(-0x1.62e42fefa0000p-1), x);  // ln2 on the grid 2^-41: exact
    r = D::fma(k, c(-0x1.cf79abc9e3b3ap-40), r);
    const R q = even_odd(polynomials::kExpm1, r);
    return {D::fma(D::mul(r, r), q, r),
            D::from_bits64(D::template shift_left<52>(D::bits64(shifted)))};
  }
  template <bool Fine = false>
  ETALON_INLINE static R exp(R x) {
    const Exp e = exp_parts<Fine>(x);
    return D::fma(e.scale, e.p, e.scale);
  }
  // 2^k p + (2^k - 1): exact second part; for k <= -1 and k >= 1 at most 2.4 times the errors.
  // Quick: the result is 0.08 at least where the power is not 1, whose rounding then counts
  // 2^-49.4. The sums lose the sign of -0, which is put back.
  ETALON_INLINE static R expm1(R x) { return D::copy_sign(D::abs(expm1_unsigned(x)), x); }
  ETALON_INLINE static R expm1_unsigned(R x) {
    const Exp e = exp_parts<false>(x);
    return D::fma(e.scale, e.p, D::sub(e.scale, c(1)));
  }
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
    return D::copy_sign(D::abs(with_ln2(t.k, p)), w);
  }
  // log(1 + e), 0 <= e <= 1.
  ETALON_INLINE static R log1p_unit(R e) {
    if constexpr (D::quick)
      return log_of_ratio(polynomials::kLog1pShort, quotient(e, D::add(e, c(2))));
    else
      return log_of_ratio(polynomials::kLog1p, D::div(e, D::add(e, c(2))));
  }
  // e^-a for a >= 0, and max(x, 0) + log1p(e^-|x|).
  ETALON_INLINE static R softplus(R x) {
    const R e = exp(D::max(c(-200), D::neg(D::abs(x))));
    return D::add(D::max(c(0), x), log1p_unit(e));
  }
  ETALON_INLINE static R tanh(R x) {
    const R e = expm1_unsigned(D::min(c(40), D::abs(D::add(x, x))));
    return D::copy_sign(quotient(e, D::add(e, c(2))), x);
  }
  // e^x/(1 + e^x) loses nothing on the left; on the right it is as good: e^x = 2^288 at most.
  ETALON_INLINE static R sigmoid(R x) {
    const R e = exp(clamp(x, -200, 200));
    return quotient(e, D::add(e, c(1)));
  }
  // erfc(a), 0 <= a <= 10.4: e^(-a^2) erfcx(a). a^2 is split by fma. erfcx: its argument's 5 u
  // times 1.5, 18.4 * 2 u for the evaluation (terms of both signs): 45 u; all: below 52 u. Quick:
  // the quotient is at most 2.7, its 2^-40.5 count 1.5 times; 2^-40.5 of the polynomial: below
  // 2^-38.9.
  ETALON_INLINE static R erfc_positive(R a) {
    using namespace polynomials;
    const R square = D::mul(a, a), low = D::fma(a, a, D::neg(square));
    const R u = D::sub(c(kErfcxOffset), quotient(c(kErfcxScale), D::add(a, c(kErfcxShift))));
    R g;
    if constexpr (D::quick)
      g = even_odd(kErfcxShort, u);
    else
      g = even_odd(kErfcx, u);
    return D::mul(exp(D::neg(square)), D::fma(D::neg(low), g, g));
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

  // |x| <= 200: as exp; x - k is exact.
  ETALON_INLINE static R exp2(R x) {
    if constexpr (D::quick) {
      const R magic = c(0x1.8p49);
      const R shifted = D::add(x, magic);
      const Exp e =
          exp_eighth(D::mul(D::sub(x, D::sub(shifted, magic)), c(0x1.62e42fefa39efp-1)), shifted);
      return D::fma(e.scale, e.p, e.scale);
    } else {
      return exp2_fine(x);
    }
  }
  ETALON_INLINE static R exp2_fine(R x) {
    const R magic = c(0x1.8p52 + 1023);
    const R shifted = D::add(x, magic);
    const R r = D::mul(D::sub(x, D::sub(shifted, magic)), c(0x1.62e42fefa39efp-1));
    const R p = D::fma(D::mul(r, r), even_odd(polynomials::kExpm1, r), r);
    const R scale = D::from_bits64(D::template shift_left<52>(D::bits64(shifted)));
    return D::fma(scale, p, scale);
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
    return D::copy_sign(D::abs(D::fma(t, p, base)), x);
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
  // (E + E/(E + 1))/2, E = expm1(|x|); (e + 1/e)/2.
  ETALON_INLINE static R sinh(R x) {
    const R e = expm1(D::min(c(100), D::abs(x)));
    return D::copy_sign(D::mul(c(0.5), D::add(e, D::div(e, D::add(e, c(1))))), x);
  }
  ETALON_INLINE static R cosh(R x) {
    const R e = exp(D::min(c(100), D::abs(x)));
    return D::mul(c(0.5), D::add(e, D::div(c(1), e)));
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

  // An infinite first value stands for a lane that the formula refuses, NaN for a result that is
  // NaN.
  ETALON_INLINE static R refuse(M where, R y) { return D::select(where, c(__builtin_inf()), y); }
  ETALON_INLINE static R finite_only(R x, R y) {
    return refuse(D::not_less(D::abs(x), c(0x1p128)), y);
  }
  // Refuses what is not in (low, 2^128), and is NaN below `domain`.
  ETALON_INLINE static R above(R x, double low, double domain, R y) {
    const R r = refuse(D::not_inside(x, c(low), c(0x1p128)), y);
    return D::select(D::less(x, c(domain)), c(__builtin_nan("")), r);
  }

  // Relative errors; the sums of u are below three quarters of them.
  static constexpr double error_of(LaneFunction f) {
    using L = LaneFunction;
    return f == L::gelu || f == L::erf || f == L::erfc ? 0x1p-38 : kPure;
  }
  template <LaneFunction F>
  ETALON_INLINE static R evaluate(R x, const LaneParams& p) {
    using L = LaneFunction;
    if constexpr (F == L::exp) return exp(clamp(x, -200, 200));
    if constexpr (F == L::exp2) return exp2(clamp(x, -200, 200));
    if constexpr (F == L::expm1) return expm1(clamp(x, -200, 200));
    // Zero, infinity and NaN are refused; negative numbers give NaN.
    if constexpr (F == L::log) return above(x, 0, 0, log(x));
    if constexpr (F == L::log2) return above(x, 0, 0, log2(x));
    if constexpr (F == L::log10) return above(x, 0, 0, log10(x));
    if constexpr (F == L::log1p) return above(x, -1, -1, log1p(x));
    if constexpr (F == L::rsqrt) return above(x, 0, 0, D::div(c(1), D::sqrt(x)));
    if constexpr (F == L::cbrt) return finite_only(x, cbrt(x));
    if constexpr (F == L::sin) return sine<0>(x);
    if constexpr (F == L::cos) return sine<1>(x);
    if constexpr (F == L::tan) return tan(x);
    if constexpr (F == L::asin) return asin(x);
    if constexpr (F == L::acos) return acos(x);
    if constexpr (F == L::atan) return atan(x);
    if constexpr (F == L::sinh) return sinh(x);
    if constexpr (F == L::cosh) return cosh(x);
    if constexpr (F == L::asinh) return finite_only(x, asinh(x));
    if constexpr (F == L::acosh) return above(x, 0x1.fffffffffffffp-1, 1, acosh(x));
    if constexpr (F == L::atanh) {
      const R size = D::abs(x);
      return D::select(D::less(c(1), size), c(__builtin_nan("")),
                       refuse(D::not_less(size, c(1)), atanh(x)));
    }
    if constexpr (F == L::tanh) return tanh(x);
    if constexpr (F == L::sigmoid) return sigmoid(x);
    if constexpr (F == L::softplus) return D::select(D::less(c(p.threshold), x), x, softplus(x));
    if constexpr (F == L::log_sigmoid) return D::neg(softplus(D::neg(x)));
    if constexpr (F == L::erf) return erf(x);
    if constexpr (F == L::erfc) return erfc(x);
    if constexpr (F == L::silu) {
      // x e/(1 + e); below -200 the value rounds to -0, as it does there.
      const R v = D::max(c(-200), x);
      return finite_only(x, D::mul(v, sigmoid(v)));
    }
    if constexpr (F == L::gelu) {
      // The argument z = |x|/sqrt(2) errs by 2 u, erfc by 2 z^2 + 1.5 times that: 220 * 2 u; and
      // erfc's own: below 2^-38.8. At the clamp, z = 10.32, |x| erfc(z)/2 < 2^-151.
      const R v = D::max(c(-14.6), x);
      const R z = D::mul(D::abs(v), c(0x1.6a09e667f3bcdp-1));
      const R y = erfc_positive(D::min(c(10.4), z));
      const R factor = D::select(D::less(v, c(0)), y, D::sub(c(2), y));
      return finite_only(x, D::mul(D::mul(v, c(0.5)), factor));
    }
    if constexpr (F == L::gelu_tanh) {
      // z errs by 5 u, its exponential by |z| times that, |z| <= 110 while the result is not 0: 550
      // u. At the clamp z < -200.
      const R v = D::max(c(-14.6), x);
      const R small = D::min(c(20), v);
      const R cube = D::mul(D::mul(small, small), small);
      const R z = D::mul(c(0x1.9884533d43651p0), D::fma(c(0.044715), cube, small));
      return finite_only(x, D::mul(v, sigmoid(z)));
    }
    if constexpr (F == L::mish) {
      const R v = D::max(c(-200), x);
      const R e = exp(D::min(c(200), v));
      const R t = D::mul(e, D::add(e, c(2)));
      return finite_only(x, D::mul(v, quotient(t, D::add(t, c(2)))));
    }
    if constexpr (F == L::softsign) return finite_only(x, D::div(x, D::add(c(1), D::abs(x))));
    if constexpr (F == L::elu ||
                  F == L::selu) {  // products with alpha and gamma: two roundings more
      R y = D::mul(c(p.alpha), expm1(clamp(x, -200, 0)));
      y = D::select(D::less(c(0), x), x, y);
      if constexpr (F == L::selu) y = D::mul(c(p.gamma), y);
      return finite_only(x, y);
    }
    if constexpr (F == L::celu) {  // x/alpha errs by u, e^z by |z| times that: 200 u
      const R z = clamp(D::div(x, c(p.alpha)), -200, 0);
      return finite_only(x, D::select(D::less(c(0), x), x, D::mul(c(p.alpha), expm1(z))));
    }
    if constexpr (F == L::hard_sigmoid) {
      // alpha x is exact, the sum rounds once. Which zero an exact 0 is, the definition says.
      const R y = D::fma(c(p.alpha), x, c(p.beta));
      const R held = D::min(c(1), D::max(c(0), y));
      return refuse(D::not_less(c(0), D::abs(y)), held);
    }
    if constexpr (F == L::hard_swish) {
      const R y = D::mul(D::mul(x, D::add(x, c(3))), c(1.0 / 6));
      const R high = D::select(D::less(x, c(3)), y, x);
      return finite_only(x, D::select(D::less(c(-3), x), high, c(-0.0)));
    }
  }

  template <LaneFunction F>
  static double values(const LaneParams& params, const float* x, double* y, std::int64_t count) {
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R v = evaluate<F>(widened(x + i, n), params);
      if (n == D::lanes)
        D::store(y + i, v);
      else
        D::store(y + i, v, D::first(n));
    });
    return error_of(F);
  }
  static double values(LaneFunction f, const LaneParams& p, const float* x, double* y,
                       std::int64_t n) {
    using F = LaneFunction;
    switch (f) {
      case F::exp:
        return values<F::exp>(p, x, y, n);
      case F::exp2:
        return values<F::exp2>(p, x, y, n);
      case F::expm1:
        return values<F::expm1>(p, x, y, n);
      case F::log:
        return values<F::log>(p, x, y, n);
      case F::log2:
        return values<F::log2>(p, x, y, n);
      case F::log10:
        return values<F::log10>(p, x, y, n);
      case F::log1p:
        return values<F::log1p>(p, x, y, n);
      case F::rsqrt:
        return values<F::rsqrt>(p, x, y, n);
      case F::cbrt:
        return values<F::cbrt>(p, x, y, n);
      case F::sin:
        return values<F::sin>(p, x, y, n);
      case F::cos:
        return values<F::cos>(p, x, y, n);
      case F::tan:
        return values<F::tan>(p, x, y, n);
      case F::asin:
        return values<F::asin>(p, x, y, n);
      case F::acos:
        return values<F::acos>(p, x, y, n);
      case F::atan:
        return values<F::atan>(p, x, y, n);
      case F::sinh:
        return values<F::sinh>(p, x, y, n);
      case F::cosh:
        return values<F::cosh>(p, x, y, n);
      case F::tanh:
        return values<F::tanh>(p, x, y, n);
      case F::asinh:
        return values<F::asinh>(p, x, y, n);
      case F::acosh:
        return values<F::acosh>(p, x, y, n);
      case F::atanh:
        return values<F::atanh>(p, x, y, n);
      case F::erf:
        return values<F::erf>(p, x, y, n);
      case F::erfc:
        return values<F::erfc>(p, x, y, n);
      case F::sigmoid:
        return values<F::sigmoid>(p, x, y, n);
      case F::log_sigmoid:
        return values<F::log_sigmoid>(p, x, y, n);
      case F::softplus:
        return values<F::softplus>(p, x, y, n);
      case F::silu:
        return values<F::silu>(p, x, y, n);
      case F::gelu:
        return values<F::gelu>(p, x, y, n);
      case F::gelu_tanh:
        return values<F::gelu_tanh>(p, x, y, n);
      case F::mish:
        return values<F::mish>(p, x, y, n);
      case F::softsign:
        return values<F::softsign>(p, x, y, n);
      case F::elu:
        return values<F::elu>(p, x, y, n);
      case F::selu:
        return values<F::selu>(p, x, y, n);
      case F::celu:
        return values<F::celu>(p, x, y, n);
      case F::hard_sigmoid:
        return values<F::hard_sigmoid>(p, x, y, n);
      case F::hard_swish:
        return values<F::hard_swish>(p, x, y, n);
      case F::leaky_relu:
      case F::sqrt:
      case F::reciprocal:
      case F::hard_tanh:
        break;
    }
    return 0;
  }

  // The rounding test, one for all functions: y[i] = v[i] to nearest where v (1 - error) and v (1 +
  // error) round alike (one rounding each, covered by the slack of the bounds), which an infinite v
  // never does; NaN is stored as the canonical one.
  template <class Scalar>
  static std::int64_t round_tested(const double* v, double error, float* y, std::int64_t count,
                                   const Scalar& scalar) {
    std::int64_t refused = 0;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R r = n == D::lanes ? D::load(v + i) : D::load(v + i, D::first(n));
      const R d = D::mul(r, c(error));
      const auto low = D::narrow(D::sub(r, d)), high = D::narrow(D::add(r, d));
      // NaN differs from itself.
      std::uint32_t bad = D::narrow_differ(low, high), nan = 0;
      float wanted[D::lanes];
      if (bad != 0) [[unlikely]] {
        nan = D::to_bits(D::unordered(r)) & ((1U << n) - 1U);
        bad &= ((1U << n) - 1U) & ~nan;
        for (std::uint32_t b = bad; b != 0; b &= b - 1) {
          const int lane = __builtin_ctz(b);
          wanted[lane] = scalar(i + lane);
          ++refused;
        }
      }
      if (n == D::lanes)
        D::narrow_store(y + i, high);
      else
        D::narrow_store(y + i, high, n);
      for (std::uint32_t b = bad; b != 0; b &= b - 1) {
        const int lane = __builtin_ctz(b);
        y[i + lane] = wanted[lane];
      }
      for (std::uint32_t b = nan; b != 0; b &= b - 1)
        y[i + __builtin_ctz(b)] = __builtin_bit_cast(float, 0x7fc00000U);
    });
    return refused;
  }

  // f(vector of floats) over an array, for what one f32 operation decides.
  template <class F, class Op>
  ETALON_INLINE static void each_float(const float* x, float* y, std::int64_t count, Op f) {
    std::int64_t i = 0;
    for (; i + F::lanes <= count; i += F::lanes) F::store(y + i, f(F::load(x + i)));
    if (i < count) {
      const auto m = F::first(static_cast<int>(count - i));
      F::store(y + i, f(F::load(x + i, m)), m);
    }
  }

  static constexpr std::int64_t kBlock = 256;

  // scale 0 leaves the rounding test out.
  static std::int64_t run(LaneFunction f, const LaneParams& p, const float* x, float* y,
                          std::int64_t count, const LaneFallback& fallback, double scale) {
    using F = typename D::Floats;
    switch (f) {
      case LaneFunction::leaky_relu: {
        const auto slope = F::set1(static_cast<float>(p.alpha));
        each_float<F>(x, y, count,
                      [&](auto v) ETALON_INLINE_LAMBDA { return D::leaky_relu(v, slope); });
        return 0;
      }
      case LaneFunction::sqrt:
        each_float<F>(x, y, count, [](auto v) ETALON_INLINE_LAMBDA { return D::sqrt(v); });
        return 0;
      case LaneFunction::reciprocal: {
        const auto one = F::set1(1);
        each_float<F>(x, y, count,
                      [&](auto v) ETALON_INLINE_LAMBDA { return F::canonical(F::div(one, v)); });
        return 0;
      }
      case LaneFunction::hard_sigmoid: {
        // Of f32 parameters one fma is the rounded value. A sum of zeros has a sign that the
        // definition knows: not here.
        const auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
        if (static_cast<double>(alpha) != p.alpha || static_cast<double>(beta) != p.beta ||
            beta == 0)
          break;
        const auto a = F::set1(alpha), b = F::set1(beta);
        each_float<F>(x, y, count,
                      [&](auto v) ETALON_INLINE_LAMBDA { return D::unit(F::fma(a, v, b)); });
        return 0;
      }
      case LaneFunction::hard_tanh: {
        const auto low = F::set1(static_cast<float>(p.low));
        const auto high = F::set1(static_cast<float>(p.high));
        each_float<F>(x, y, count,
                      [&](auto v) ETALON_INLINE_LAMBDA { return D::hard_tanh(v, low, high); });
        return 0;
      }
      default:
        break;
    }
    alignas(64) double v[kBlock];
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < count; i += kBlock) {
      const std::int64_t n = count - i < kBlock ? count - i : kBlock;
      const double error = values(f, p, x + i, v, n);
      refused += round_tested(v, error * scale, y + i, n, [&](std::int64_t at) {
        return fallback.scalar(fallback.context, x[i + at]);
      });
    }
    return refused;
  }

  // e^(y log x), x > 0: the error of y log x, below 30 u, counts |y log x| <= 104 times: 2^-41.3.
  static std::int64_t run_pow(const float* x, const float* y, bool y_varies, float* out,
                              std::int64_t count, const PowFallback& fallback) {
    using F = typename D::Floats;
    if (!y_varies && *y == 2) {
      each_float<F>(x, out, count,
                    [](auto v) ETALON_INLINE_LAMBDA { return F::canonical(F::mul(v, v)); });
      return 0;
    }
    alignas(64) double v[kBlock];
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < count; i += kBlock) {
      const std::int64_t block = count - i < kBlock ? count - i : kBlock;
      each(block, [&](std::int64_t k, int n) ETALON_INLINE_LAMBDA {
        const R base = widened(x + i + k, n);
        const R exponent = y_varies ? widened(y + i + k, n) : c(static_cast<double>(*y));
        const R z = D::mul(exponent, log<true>(base));
        const R r = finite_only(exponent, refuse(D::not_inside(base, c(0), c(0x1p128)),
                                                 exp<true>(clamp(z, -200, 200))));
        D::store(v + k, r);  // whole vectors: the block has room
      });
      refused += round_tested(v, 0x1p-40, out + i, block, [&](std::int64_t at) {
        return fallback.scalar(x[i + at], y_varies ? y[i + at] : *y);
      });
    }
    return refused;
  }

  // Calls f(i, n) for whole vectors, then for the tail.
  template <class F>
  ETALON_INLINE static void each(std::int64_t count, F f) {
    std::int64_t i = 0;
    for (; i + D::lanes <= count; i += D::lanes) f(i, D::lanes);
    if (i < count) f(i, static_cast<int>(count - i));
  }
  ETALON_INLINE static R widened(const float* x, int n) {
    return n == D::lanes ? D::widen(x) : D::widen(x, D::first(n));
  }
  // x - m errs by u |x - m| and the exponential by as much, |x - m| <= 200: 200 u; and 5 u.
  static void exp_shifted(const float* x, float m, double* e, std::int64_t count) {
    const R shift = c(static_cast<double>(m));
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R y = exp<true>(D::max(c(-200), D::sub(widened(x + i, n), shift)));
      if (n == D::lanes)
        D::store(e + i, y);
      else
        D::store(e + i, y, D::first(n));
    });
  }
  ETALON_INLINE static bool store_if_decided(R v, double error, float* y, int n) {
    const R d = D::mul(v, c(error));
    const auto low = D::narrow(D::sub(v, d)), high = D::narrow(D::add(v, d));
    if (n == D::lanes)
      D::narrow_store(y, high);
    else
      D::narrow_store(y, high, n);
    return (D::narrow_differ(low, high) & ((1U << n) - 1U)) == 0;
  }
  static bool divide(const double* e, double s, double error, float* y, std::int64_t count) {
    bool decided = true;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R v = n == D::lanes ? D::load(e + i) : D::load(e + i, D::first(n));
      decided &= store_if_decided(D::div(v, c(s)), error, y + i, n);
    });
    return decided;
  }
  static bool subtract(const float* x, float m, double log_sum, double error, float* y,
                       std::int64_t count) {
    bool decided = true;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R d = D::sub(widened(x + i, n), c(static_cast<double>(m)));
      decided &= store_if_decided(D::sub(d, c(log_sum)), error, y + i, n);
    });
    return decided;
  }
};

}  // namespace etalon
