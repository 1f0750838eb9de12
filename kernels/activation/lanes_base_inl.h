// What all formulas of lanes.h share: polynomials, quotients and the lanes that a formula refuses.
//
// A first pass need not be better than its rounding test's neighbours are rare: with an error of
// 2^-38 one input in some ten thousand goes to the definition, which costs less than a term of a
// polynomial. So where the processor can (D::quick: AVX-512's approximate reciprocals and
// permutations of registers), quotients err by 2^-41.9 and polynomials stop there too; what is used
// for sums and powers, whose errors grow, keeps all bits (fine).
//
// Intermediate bits need not agree between instruction sets, only stay within the error that the
// rounding test allows for; fma is used freely. Errors in units of u = 2^-53, u for each operation
// without a note. Where all steps are fine every function stays below 60 u; what quick ones add
// stands beside them, and the error that the rounding test allows for beside the tests (error_of,
// lanes_inl.h): the sum is below three quarters of it.
//
// Clamps: outside them an f32 result no longer depends on x, because it has overflowed, underflowed
// below half the smallest subnormal, or met its limit; the value at the clamp rounds the same. The
// order of operands in max and min lets NaN pass.
#pragma once

#include "kernels/activation/lanes.h"
#include "kernels/activation/polynomials.h"
#include "kernels/simd/unroll.h"

namespace etalon {

// D: a vector of doubles with its operations (lanes_avx2.cpp, lanes_avx512.cpp).
template <class D>
struct LaneBase {
  using R = typename D::Reg;
  using M = typename D::Test;

  ETALON_INLINE static R c(double x) { return D::set1(x); }
  ETALON_INLINE static R clamp(R x, double low, double high) {
    return D::min(c(high), D::max(c(low), x));
  }
  // Of x that is a widened f32, between limits that are floats: D may do it before it widens.
  ETALON_INLINE static R clamp_input(R x, float low, float high) {
    if constexpr (requires { D::clamp_widened(x, low, high); })
      return D::clamp_widened(x, low, high);
    else
      return clamp(x, low, high);
  }
  template <int N>
  ETALON_INLINE static R horner(const double (&p)[N], R x) {
    R r = c(p[N - 1]);
    simd::unroll<N - 1>([&](auto i) ETALON_INLINE_LAMBDA { r = D::fma(r, x, c(p[N - 2 - i])); });
    return r;
  }
  // factor^shift p(factor x) for a factor of +-2^k, which scales coefficients exactly.
  template <double kFactor, int kShift = 0, int N>
  ETALON_INLINE static R horner_scaled(const double (&p)[N], R x) {
    R r = c(p[N - 1] * power<N - 1 + kShift>(kFactor));
    simd::unroll<N - 1>([&](auto i) ETALON_INLINE_LAMBDA {
      constexpr int k = N - 2 - decltype(i)::value;
      r = D::fma(r, x, c(p[k] * power<k + kShift>(kFactor)));
    });
    return r;
  }
  template <int N>
  static constexpr double power(double x) {
    if constexpr (N == 0)
      return 1;
    else
      return x * power<N - 1>(x);
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

  // a/b and 1/b, b normal and not near the ends of the range: r errs by 2^-14, e = 1 - b r; r (1 +
  // e + e^2) by e^3 = 2^-42.
  ETALON_INLINE static R quotient(R a, R b) {
    if constexpr (D::quick) {
      const R r = D::reciprocal14(b);
      const R e = D::fnma(b, r, c(1)), ar = D::mul(a, r);
      return D::fma(ar, D::fma(e, e, e), ar);
    } else {
      return D::div(a, b);
    }
  }
  ETALON_INLINE static R reciprocal(R b) {
    if constexpr (D::quick) {
      const R r = D::reciprocal14(b);
      const R e = D::fnma(b, r, c(1));
      return D::fma(r, D::fma(e, e, e), r);
    } else {
      return D::div(c(1), b);
    }
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
};

}  // namespace etalon
