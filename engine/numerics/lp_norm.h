// |x|^p and p-th roots, as p-norms need them (lp_pool, lp_normalization).
//
// In the reals a norm can be a value of a format or lie midway between two of them: the root of
// 3^3 + 4^3 + 5^3 is 6. A ball around such a point does not decide a rounding, however small it is.
// So, for p = n / 2^s, terms of integer p are products, exact while they fit the number system, and
// the root c of few bits that the ball suggests is put to the test in integers: c^n against
// x^(2^s). Equal, it is the root; otherwise the root lies strictly on one side, and the ball may
// end at c. What is left undecided are norms whose terms span more than 2304 bits. In a contract's
// arithmetic both are pow, rounded to acc.
//
// With s > 0 the terms of a rational norm are irrational, but only by a common factor: square roots
// of different squarefree numbers (and 2^s-th roots of numbers free of such powers) are linearly
// independent over the rationals (Besicovitch, J. London Math. Soc. 1940), so all |x_i|^(1/2^s) are
// rational multiples of one of them. LpScale divides the x_i by their greatest common divisor; what
// is left are 2^s-th powers, whose terms pow knows to be exact: of (2, 2, ..., 2), 27 of them and
// p = 3/2, the norm is 2 * 27^(2/3) = 18.
#pragma once

#include "engine/backend/is_real.h"
#include "engine/numerics/real.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// x^(1/p) of x >= 0, for L = 4, 10, 36 (lp_norm.cpp).
template <int L>
typename RealBig<L>::V real_root(RealBig<L>& a, const typename RealBig<L>::V& x, double p);

inline constexpr double kMaxPowerByProducts = 32;

// The greatest common divisor of numbers, all of them integers times a power of two. 1 where they
// are none (zeros alone, an infinity, NaN), or where a quotient would leave f64.
class LpScale {
 public:
  void take(double x);
  double divisor() const;
  // Whether terms of this p need it.
  static bool matters(double p) { return p != __builtin_floor(p); }

 private:
  std::uint64_t odd_ = 0;
  int lowest_ = 0, highest_ = 0;  // exponents of the odd parts
  bool plain_ = true;
};

// x >= 0, or NaN.
template <class A>
typename A::V lp_power(A& a, const typename A::V& x, double p) {
  if constexpr (is_real<A>) {
    if (p >= 1 && p <= kMaxPowerByProducts && p == __builtin_floor(p)) {
      typename A::V y = x;
      for (int i = 1; i < static_cast<int>(p); ++i) y = a.mul(y, x);
      return y;
    }
  }
  return a.pow(x, a.constant(p));
}

template <class A>
struct LpRoot {
  static typename A::V of(A& a, const typename A::V& x, double p) {
    return a.pow(x, a.div(a.constant(1), a.constant(p)));
  }
};
template <int L>
struct LpRoot<RealBig<L>> {
  static typename RealBig<L>::V of(RealBig<L>& a, const typename RealBig<L>::V& x, double p) {
    return real_root(a, x, p);
  }
};
template <class A>
typename A::V lp_root(A& a, const typename A::V& x, double p) {
  return LpRoot<A>::of(a, x, p);
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
