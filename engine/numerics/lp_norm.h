// |x|^p and p-th roots, as p-norms need them (lp_pool, lp_normalization).
//
// In the reals a norm can be a value of a format or lie midway between two of them: the root of
// 3^3 + 4^3 + 5^3 is 6. A ball around such a point does not decide a rounding, however small it is.
// So, for p = n / 2^s, terms of integer p are products, exact while they fit the number system, and
// the root c of few bits that the ball suggests is put to the test in integers: c^n against
// x^(2^s). Equal, it is the root; otherwise the root lies strictly on one side, and the ball may
// end at c. In a contract's arithmetic both are pow, rounded to acc.
//
// With s > 0 the terms of a rational norm are irrational, but only by a common factor: square roots
// of different squarefree numbers (and 2^s-th roots of numbers free of such powers) are linearly
// independent over the rationals (Besicovitch, J. London Math. Soc. 1940), so all |x_i|^(1/2^s) are
// rational multiples of one of them. LpScale divides the x_i by their greatest common divisor; what
// is left are 2^s-th powers, whose terms pow knows to be exact: of (2, 2, ..., 2), 27 of them and
// p = 3/2, the norm is 2 * 27^(2/3) = 18.
//
// One element that is not zero is its own norm, of any p. One that outweighs the others by more
// than any ladder sees, their powers together less than 2^-1100 of its own, is less than the norm
// by less than 2^-1000 of it: LpElements knows both, and beside() makes the open ball that lies
// on the right side of a boundary.
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

// What the sizes of the elements say of their norm.
class LpElements {
 public:
  void take(double x);
  // Of a single number that is not zero the norm is its size.
  bool single() const { return plain_ && others_ == 0 && largest_ > 0; }
  // largest() < norm < largest() (1 + 2^-1000).
  bool outweighed(double p) const;
  double largest() const { return largest_; }

 private:
  double largest_ = 0, second_ = 0;
  std::int64_t others_ = 0;  // besides the largest, not zero
  bool plain_ = true;
};

// Of an exact q: a number strictly between q and q (1 + side 2^-99), side = 1 or -1. Of another q:
// a number between q and q (1 + side 2^-1000).
template <class A>
struct LpBeside {
  static typename A::V of(A& a, const typename A::V&, int) { return a.undecide(); }
};
template <int L>
typename RealBig<L>::V beside(const typename RealBig<L>::V& q, int side);  // L = 4, 10, 36
template <int L>
struct LpBeside<RealBig<L>> {
  static typename RealBig<L>::V of(RealBig<L>&, const typename RealBig<L>::V& q, int side) {
    return beside<L>(q, side);
  }
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
