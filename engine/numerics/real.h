// Real numbers with a proven error: how the correctly rounded value of a formula is found.
//
// A formula is written once, over a number system A, as a generic lambda that returns an A::V:
//   correctly_rounded([&](auto& a) { return a.div(a.input(x), a.sqrt(a.input(y))); }, DType::f32)
// A value is a ball: the real number lies strictly within `radius` of `mid`, or is `mid` itself
// when the radius is 0. Two systems share one interface:
//   RealF64      midpoint in f64, for nearly all inputs enough to round to f32 and below
//   RealBig<L>   midpoint of 64 L bits; the ladder 4, 10, 36 limbs follows when f64 does not decide
// Both ends of the ball round to one value: that is the result (Ziv: "Fast evaluation of elementary
// mathematical functions with correctly rounded last bit", ACM TOMS 1991). A ball around a rounding
// boundary never shrinks away from it, so formulas that can hit a boundary must be exact there: +,
// -, *, / and sqrt of exact values keep radius 0 whenever their result is representable, sums are
// exact (superaccumulator) while their terms are doubles or products of doubles, and the functions
// know their exact cases. Write formulas fraction-free where ties matter (n x - sum x, not x -
// mean).
//
// undecided is set when this system cannot tell: an f64 overflow, a divisor or root that may be
// zero, a comparison of overlapping balls. The value returned then means nothing; the ladder goes
// on. Special values: inf and NaN operands follow IEEE 754, result radius 0; max and min propagate
// NaN and take the first on a tie. A value above 2^(2^40) (exp of a huge number) stands for all of
// them: it rounds right in every format and mode, but must not be divided by or subtracted.
#pragma once

#include <cstdint>

#include "engine/numerics/big.h"
#include "engine/numerics/fp.h"
#include "engine/numerics/function.h"
#include "engine/numerics/superaccumulator.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct Rounded {
  double value;
  bool decided;
};

// x moved by an infinitesimal step (direction +1 or -1), rounded: the value of an open interval's
// end.
inline double round_open(double x, int direction, DType to, Round mode, Subnormals subnormals) {
  const std::uint64_t b = bits_of(x), magnitude = b & 0x7fffffffffffffffU;
  if (magnitude == 0)
    return round_scaled(direction < 0, std::uint64_t{1} << 63, -4000, true, to, mode, subnormals);
  std::uint64_t m = magnitude & 0x000fffffffffffffU;
  std::int64_t e = static_cast<std::int64_t>(magnitude >> 52);
  if (e == 0)
    e = 1;
  else
    m |= std::uint64_t{1} << 52;
  const int shift = __builtin_clzll(m);
  m <<= shift;
  std::int64_t q = e - 1075 - shift;
  const bool negative = sign_bit(x);
  if (negative == (direction > 0)) {  // toward zero
    if (m == std::uint64_t{1} << 63) {
      m = ~std::uint64_t{0};
      --q;
    } else {
      --m;
    }
  }
  return round_scaled(negative, m, q, true, to, mode, subnormals);
}

// ---- f64 balls
// ----------------------------------------------------------------------------------------

// Rounding errors: u = 2^-53 relative for each operation, 2^-1075 absolute where it may underflow.
// Radii are sums and products of non-negative doubles, each off by u at most; every formula ends
// with one factor kUp = 1 + 2^-45, which outweighs up to a hundred such errors.
class RealF64 {
 public:
  struct V {
    double mid = 0, rad = 0;
  };
  static constexpr double kUp = 1 + 0x1p-45, kU = 0x1p-53, kTiny = 0x1p-1070;

  bool undecided = false;
  Round rounding = Round::nearest_even;  // of the result; an exact zero sum is -0 rounding down

  ETALON_NOINLINE V input(double x) { return {canonical(x), 0}; }
  V constant(double x) { return {canonical(x), 0}; }
  ETALON_NOINLINE V ratio(std::int64_t p, std::int64_t q) { return div(integer(p), integer(q)); }
  V integer(std::int64_t n) {
    const double x = static_cast<double>(n);
    return {
        x, n > (std::int64_t{1} << 53) || n < -(std::int64_t{1} << 53) ? ulp_of(x, DType::f64) : 0};
  }

  ETALON_NOINLINE V add(const V& a, const V& b) {
    const TwoDoubles s = two_sum(a.mid, b.mid);
    if (!is_finite(s.value)) return overflow(s.value, a, b);
    if (s.value == 0 && rounding == Round::downward && a.rad == 0 && b.rad == 0)
      return {bits_of(a.mid) == 0 && bits_of(b.mid) == 0 ? 0.0 : -0.0, 0};
    return {s.value, (a.rad + b.rad + abs_of(s.error)) * kUp};
  }
  ETALON_NOINLINE V sub(const V& a, const V& b) { return add(a, neg(b)); }
  ETALON_NOINLINE V mul(const V& a, const V& b) {
    const double p = a.mid * b.mid;
    if (!is_finite(p)) return overflow(p, a, b);
    const double spread = abs_of(a.mid) * b.rad + abs_of(b.mid) * a.rad + a.rad * b.rad;
    const double error = product_error(a.mid, b.mid, p);
    if (spread == 0 && error == 0 && a.rad == 0 && b.rad == 0) return {p, 0};
    return {p, (spread + error) * kUp + kTiny};
  }
  ETALON_NOINLINE V div(const V& a, const V& b) {
    const double q = a.mid / b.mid;
    if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
    if (b.rad != 0 && abs_of(b.mid) <= b.rad * 0x1p20) return undecide();
    if (!is_finite(q)) {
      if (b.mid == 0 && a.rad != 0 && abs_of(a.mid) <= a.rad) return undecide();
      if (b.mid == 0) return {canonical(q), 0};
      return overflow(q, a, b);
    }
    if (!is_finite(b.mid)) return a.rad == 0 || abs_of(a.mid) > a.rad ? V{q, 0} : undecide();
    if (a.rad == 0 && b.rad == 0 && exact_quotient(a.mid, b.mid, q)) return {q, 0};
    const double room = abs_of(b.mid) - b.rad;
    return {q,
            ((a.rad + abs_of(q) * b.rad) / (room * (1 - 0x1p-50)) + abs_of(q) * kU) * kUp + kTiny};
  }
  V neg(const V& a) { return {a.mid == a.mid ? -a.mid : a.mid, a.rad}; }
  ETALON_NOINLINE V abs(const V& a) { return {abs_of(a.mid), a.rad}; }
  ETALON_NOINLINE V sqrt(const V& a) {
    if (a.rad == 0) {
      const double r = canonical(__builtin_sqrt(a.mid));
      if (r == 0 || !is_finite(r)) return {r, 0};
      const double error = product_error(r, r, r * r);
      if (error == 0 && r * r == a.mid) return {r, 0};
      return {r, r * kU * kUp + kTiny};
    }
    if (!(a.mid > a.rad * kUp)) return undecide();
    const double r = __builtin_sqrt(a.mid);
    return {r, (a.rad / r + r * kU) * kUp + kTiny};
  }
  // The product's error is exact where it can be, so that this rounds once: (s + (t + e)).
  ETALON_NOINLINE V fma(const V& a, const V& b, const V& c) { return add(mul_plus(a, b, c)); }
  ETALON_NOINLINE V max(const V& a, const V& b) {
    if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
    return pick(a, b, b.mid > a.mid);
  }
  ETALON_NOINLINE V min(const V& a, const V& b) {
    if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
    return pick(a, b, b.mid < a.mid);
  }
  ETALON_NOINLINE bool less(const V& a, const V& b) {
    note_overlap(a, b);
    return a.mid < b.mid;
  }
  ETALON_NOINLINE bool equal(const V& a, const V& b) {
    if (is_nan(a.mid) || is_nan(b.mid)) return false;
    note_overlap(a, b);
    return a.rad == 0 && b.rad == 0 && a.mid == b.mid;
  }

  V call(Function f, const V& x);  // elementary/functions.cpp
  V pow(const V& x, const V& y);

  // Compensated: the parts that f64 additions lose are summed too, with their own error count.
  // While nothing is lost (small integers, zeros), the sum is exact and its radius 0.
  class Sum {
   public:
    Sum(RealF64& a, std::int64_t /*count*/) : a_(a) {}
    ETALON_NOINLINE void add(const V& term) {
      rad_ += term.rad;
      step(term.mid);
      radii_ += term.rad != 0 ? 1 : 0;
    }
    ETALON_NOINLINE void add_product(const V& x, const V& y) {
      const double p = x.mid * y.mid;
      const bool exact = x.rad == 0 && y.rad == 0;
      if (!exact) {
        add(a_.mul(x, y));
        return;
      }
      const double e = product_error_signed(x.mid, y.mid, p);
      step(p);
      if (e != 0) {
        if (is_nan(e) && is_finite(p)) {  // p is tiny: its error is bounded, not known
          rad_ += abs_of(p) * kU + kTiny;
          ++radii_;
        } else if (is_finite(p)) {
          lose(e);
        } else if (is_finite(x.mid) && is_finite(y.mid)) {
          a_.undecided = true;
        }
      }
    }
    void skip(std::int64_t /*positions*/) {}  // a position without a term; real sums have no order
    ETALON_NOINLINE V result() {
      if (!is_finite(sum_)) {
        if (finite_terms_) a_.undecided = true;
        return {canonical(sum_), 0};
      }
      const TwoDoubles total = two_sum(sum_, lost_);
      if (total.value == 0 && rad_ == 0 && losses_ <= 1)
        return {a_.rounding == Round::downward && not_plus_zero_ != 0 ? -0.0 : 0.0, 0};
      // lost_ met `losses_` additions, each off by u of a partial sum that is at most the sum of
      // sizes; rad_ and lost_size_ themselves are sums of non-negative terms.
      const double n = static_cast<double>(losses_ + radii_ + 2);
      if (n > 0x1p40) return a_.undecide();
      const double error = losses_ > 1 ? lost_size_ * n * kU * (1 + n * 0x1p-50) : 0;
      const double rad = (rad_ * (1 + n * 0x1p-50) + error + abs_of(total.error)) * kUp;
      return {total.value, rad};
    }

   private:
    void step(double x) {
      not_plus_zero_ |= bits_of(x);
      const double s = sum_ + x;
      const double t = s - sum_;
      const double e = (sum_ - (s - t)) + (x - t);
      finite_terms_ = finite_terms_ && is_finite(x);
      sum_ = s;
      if (e != 0 && e == e) lose(e);
    }
    void lose(double e) {
      lost_ += e;
      lost_size_ += abs_of(e);
      ++losses_;
    }
    RealF64& a_;
    double sum_ = 0, lost_ = 0, lost_size_ = 0, rad_ = 0;
    std::int64_t losses_ = 0, radii_ = 0;
    std::uint64_t not_plus_zero_ = 0;
    bool finite_terms_ = true;
  };

  ETALON_NOINLINE Rounded round(const V& v, DType to, Round mode = Round::nearest_even,
                                Subnormals subnormals = Subnormals::keep) {
    if (v.rad == 0 || !is_finite(v.mid)) return {round_to(v.mid, to, mode, subnormals), !undecided};
    if (to == DType::f32 && mode == Round::nearest_even && subnormals == Subnormals::keep) {
      // Two units of mid more than the radius cover the rounding of mid - r and mid + r.
      const double r = v.rad + abs_of(v.mid) * 0x1p-52;
      const float low = static_cast<float>(v.mid - r), high = static_cast<float>(v.mid + r);
      if (bits_of(low) == bits_of(high) && low == low)
        return {static_cast<double>(low), !undecided};
    }
    const TwoDoubles low = two_sum(v.mid, -v.rad), high = two_sum(v.mid, v.rad);
    if (to == DType::f64 || !is_finite(low.value) || !is_finite(high.value)) return {v.mid, false};
    const double l = low.error < 0 ? next_down(low.value) : low.value;
    const double h = high.error > 0 ? next_up(high.value) : high.value;
    const double a = round_open(l, 1, to, mode, subnormals),
                 b = round_open(h, -1, to, mode, subnormals);
    return {a, bits_of(a) == bits_of(b) && !undecided};
  }
  double midpoint(const V& v) const { return v.mid; }
  double radius(const V& v) const { return v.rad; }  // an upper bound
  // An f64 value within 2^-10 ULP (of the f32 result) of the real one, if the ball is that small.
  bool truth(const V& v, double& value) const {
    value = v.mid;
    return v.rad == 0 || !is_finite(v.mid) || v.rad <= ulp_of(v.mid, DType::f32) * 0x1p-11;
  }

  V undecide() {
    undecided = true;
    return {kNan, 0};
  }
  // For functions: a value with a bound on its absolute error.
  static V with_error(double mid, double rad) { return {mid, rad * kUp + kTiny}; }

 private:
  struct Three {
    V sum, low;
  };
  V add(const Three& t) { return add(t.sum, t.low); }
  Three mul_plus(const V& a, const V& b, const V& c) {
    const V p = mul(a, b);
    if (a.rad != 0 || b.rad != 0 || p.rad == 0 || !is_finite(p.mid)) return {p, c};
    const double e = product_error_signed(a.mid, b.mid, p.mid);
    if (is_nan(e)) return {p, c};
    const TwoDoubles s = two_sum(p.mid, c.mid);
    if (!is_finite(s.value)) return {p, c};
    return {{s.value, c.rad}, add(V{s.error, 0}, V{e, 0})};
  }
  // |p - ab|, exact where that is cheap or certain, else a bound.
  static double product_error(double a, double b, double p) {
    const double e = product_error_signed(a, b, p);
    return is_nan(e) ? abs_of(p) * kU + kTiny : abs_of(e);
  }
  // ab - p, or NaN when it is not known. Factors of at most 26 bits (f32 and below) have none.
  static double product_error_signed(double a, double b, double p) {
    if (a == 0 || b == 0) return 0;
    const double size = abs_of(p);
    if (!(size > 0x1p-900 && abs_of(a) < 0x1p900 && abs_of(b) < 0x1p900)) return kNan;
    if (((bits_of(a) | bits_of(b)) & 0x7ffffffU) == 0) return 0;
    return two_prod(a, b).error;
  }
  static bool exact_quotient(double a, double b, double q) {
    if (q == 0) return a == 0;
    const double p = q * b;
    return p == a && product_error_signed(q, b, p) == 0;
  }
  V overflow(double x, const V& a, const V& b) {
    if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
    if (is_finite(a.mid) && is_finite(b.mid)) return undecide();
    // inf times a ball that may be zero or of either sign; inf and exact values are plain IEEE.
    if ((a.rad != 0 && abs_of(a.mid) <= a.rad) || (b.rad != 0 && abs_of(b.mid) <= b.rad))
      return undecide();
    return {canonical(x), 0};
  }
  static V pick(const V& a, const V& b, bool second) {
    // max is 1-Lipschitz in the larger of both errors; disjoint balls keep their own.
    const V& chosen = second ? b : a;
    if (a.rad == 0 && b.rad == 0) return chosen;
    if (abs_of(a.mid - b.mid) > (a.rad + b.rad) * kUp + abs_of(a.mid) * 0x1p-52) return chosen;
    return {chosen.mid, a.rad > b.rad ? a.rad : b.rad};
  }
  void note_overlap(const V& a, const V& b) {
    if ((a.rad != 0 || b.rad != 0) && is_finite(a.mid) && is_finite(b.mid) &&
        !(abs_of(a.mid - b.mid) > (a.rad + b.rad + abs_of(a.mid) * 0x1p-52) * kUp))
      undecided = true;
  }
};

// ---- balls of any size
// -----------------------------------------------------------------------------------

// A non-negative upper bound m * 2^e with m < 2^32: radii. Every operation rounds up.
struct Bound {
  std::uint64_t m = 0;
  std::int64_t e = 0;

  static Bound make(std::uint64_t m, std::int64_t e) {
    if (m >> 32 != 0) {
      const int shift = 32 - __builtin_clzll(m);
      const std::uint64_t kept = m >> shift;
      return make(kept + ((kept << shift) != m ? 1 : 0), e + shift);
    }
    if (m == 0) return {};
    const int shift = __builtin_clzll(m) - 32;  // normalised: bit 31 set
    return {m << shift, e - shift};
  }
  static Bound power_of_two(std::int64_t e) { return {std::uint64_t{1} << 31, e - 31}; }
  static Bound of(double x) {  // x >= 0, finite
    if (x == 0) return {};
    const std::uint64_t b = bits_of(x);
    const auto e = static_cast<std::int64_t>(b >> 52);
    const std::uint64_t m = b & 0x000fffffffffffffU;
    return e == 0 ? make(m, -1074) : make(m | std::uint64_t{1} << 52, e - 1075);
  }
  template <int L>
  static Bound above(const Big<L>& x) {  // >= |x|
    if (x.is_zero()) return {};
    return make((x.limb[L - 1] >> 32) + 1, x.exponent + 64 * (L - 1) + 32);
  }
  // <= |x|, so that dividing by it rounds up.
  template <int L>
  static Bound below(const Big<L>& x) {
    if (x.is_zero()) return {};
    return {x.limb[L - 1] >> 32, x.exponent + 64 * (L - 1) + 32};
  }
  bool is_zero() const { return m == 0; }
  friend Bound operator+(const Bound& a, const Bound& b) {
    if (a.m == 0) return b;
    if (b.m == 0) return a;
    const Bound& large = a.e >= b.e ? a : b;
    const Bound& small = a.e >= b.e ? b : a;
    const std::int64_t d = large.e - small.e;
    return make(large.m + (d < 32 ? (small.m >> d) + 1 : 1), large.e);
  }
  friend Bound operator*(const Bound& a, const Bound& b) { return make(a.m * b.m, a.e + b.e); }
  friend Bound operator/(const Bound& a, const Bound& b) {  // b a lower bound, not zero
    if (a.m == 0) return {};
    return make((a.m << 32) / b.m + 1, a.e - b.e - 32);
  }
  Bound times_power_of_two(std::int64_t k) const { return {m, m == 0 ? 0 : e + k}; }
  template <int L>
  Big<L> big() const {
    return Big<L>::scaled(false, m, e);
  }
  friend bool operator<(const Bound& a, const Bound& b) {
    if (a.m == 0 || b.m == 0) return a.m == 0 && b.m != 0;
    return a.e != b.e ? a.e < b.e : a.m < b.m;
  }
};

template <int L>
class RealBig {
 public:
  using B = Big<L>;
  struct V {
    B mid;
    Bound rad;
    bool exact() const { return rad.is_zero(); }
  };

  bool undecided = false;
  Round rounding = Round::nearest_even;

  ETALON_NOINLINE V input(double x) { return {B::of(x), {}}; }
  V constant(double x) { return {B::of(x), {}}; }
  V integer(std::int64_t n) { return {B::of_integer(n), {}}; }
  ETALON_NOINLINE V ratio(std::int64_t p, std::int64_t q) { return div(integer(p), integer(q)); }

  ETALON_NOINLINE V add(const V& a, const V& b) {
    bool inexact = false;
    const B r = B::add(a.mid, b.mid, inexact);
    if (!r.finite()) return {r, {}};
    if (r.is_zero() && rounding == Round::downward && a.exact() && b.exact()) {
      const bool plus = a.mid.is_zero() && b.mid.is_zero() && !a.mid.negative && !b.mid.negative;
      return {B::zero(!plus), {}};
    }
    return {r, a.rad + b.rad + last_place(r, inexact)};
  }
  ETALON_NOINLINE V sub(const V& a, const V& b) { return add(a, neg(b)); }
  ETALON_NOINLINE V mul(const V& a, const V& b) {
    if (a.mid.is_nan() || b.mid.is_nan()) return {B::nan(), {}};
    bool inexact = false;
    const B r = B::mul(a.mid, b.mid, inexact);
    if (!r.finite()) return may_be_zero(a) || may_be_zero(b) ? undecide() : V{r, {}};
    Bound rad = last_place(r, inexact);
    if (!a.exact() || !b.exact())
      rad = rad + Bound::above(a.mid) * b.rad + Bound::above(b.mid) * a.rad + a.rad * b.rad;
    return {r, rad};
  }
  ETALON_NOINLINE V div(const V& a, const V& b) {
    if (a.mid.is_nan() || b.mid.is_nan()) return {B::nan(), {}};
    if (!b.exact() && lower(b) < b.rad.times_power_of_two(20)) return undecide();
    bool inexact = false;
    const B r = B::div(a.mid, b.mid, inexact);
    if (!r.finite()) return may_be_zero(a) ? undecide() : V{r, {}};
    Bound rad = last_place(r, inexact);
    if (!a.exact() || !b.exact()) {
      const Bound room = lower(b);
      if (room.is_zero()) return undecide();
      rad = rad + (a.rad + (Bound::above(r) + rad) * b.rad) / room;
    }
    return {r, rad};
  }
  V neg(const V& a) { return {-a.mid, a.rad}; }
  ETALON_NOINLINE V abs(const V& a) {
    V r = a;
    r.mid.negative = false;
    return r;
  }
  ETALON_NOINLINE V sqrt(const V& a) {
    if (!a.exact() && (may_be_zero(a) || a.mid.negative)) return undecide();
    bool inexact = false;
    const B r = B::sqrt(a.mid, inexact);
    if (!r.finite()) return {r, {}};
    Bound rad = last_place(r, inexact);
    if (!a.exact()) rad = rad + a.rad / Bound::below(r);  // |sqrt(a +- r) - sqrt(a)| <= r / sqrt(a)
    return {r, rad};
  }
  ETALON_NOINLINE V fma(const V& a, const V& b, const V& c) { return add(mul(a, b), c); }
  ETALON_NOINLINE V max(const V& a, const V& b) { return pick(a, b, 1); }
  ETALON_NOINLINE V min(const V& a, const V& b) { return pick(a, b, -1); }
  ETALON_NOINLINE bool less(const V& a, const V& b) {
    if (a.mid.is_nan() || b.mid.is_nan()) return false;
    if (overlap(a, b)) undecided = true;
    return B::compare(a.mid, b.mid) < 0;
  }
  ETALON_NOINLINE bool equal(const V& a, const V& b) {
    if (a.mid.is_nan() || b.mid.is_nan()) return false;
    if (overlap(a, b)) undecided = true;
    return a.exact() && b.exact() && B::compare(a.mid, b.mid) == 0;
  }

  V call(Function f, const V& x);  // elementary/real_big.cpp, for L = 4, 10, 36
  V pow(const V& x, const V& y);

  class Sum {
   public:
    Sum(RealBig& a, std::int64_t /*count*/) : a_(a) {}
    ETALON_NOINLINE void add(const V& term) {
      double x;
      if (term.exact() && term.mid.as_double(x))
        exact_.add(x);
      else
        rest_ = a_.add(rest_, term);
    }
    ETALON_NOINLINE void add_product(const V& x, const V& y) {
      double p, q;
      if (x.exact() && y.exact() && x.mid.as_double(p) && y.mid.as_double(q))
        exact_.add_product(p, q);
      else
        rest_ = a_.add(rest_, a_.mul(x, y));
    }
    void skip(std::int64_t /*positions*/) {}
    ETALON_NOINLINE V result() {
      bool inexact = false;
      B sum = B::of(exact_, inexact);
      if (sum.is_zero()) sum.negative = bits_of(exact_.round(DType::f64, a_.rounding)) != 0;
      return a_.add(V{sum, last_place(sum, inexact)}, rest_);
    }

   private:
    RealBig& a_;
    Superaccumulator exact_;
    V rest_{};
  };

  ETALON_NOINLINE Rounded round(const V& v, DType to, Round mode = Round::nearest_even,
                                Subnormals subnormals = Subnormals::keep) {
    if (v.exact() || !v.mid.finite()) return {v.mid.round(to, mode, subnormals), !undecided};
    const B low = end(v, true), high = end(v, false);
    // The ball is open: its ends are just inside. An end of zero lies inside on the far side.
    const double a = inside(low, 1, to, mode, subnormals),
                 b = inside(high, -1, to, mode, subnormals);
    return {a, bits_of(a) == bits_of(b) && !undecided};
  }
  double midpoint(const V& v) const { return v.mid.round(DType::f64); }
  double radius(const V& v) const {
    return v.rad.template big<L>().round(DType::f64, Round::upward);
  }
  bool truth(const V& v, double& value) const {
    value = v.mid.round(DType::f64);
    if (v.exact() || !is_finite(value)) return true;
    return v.rad < Bound::of(ulp_of(value, DType::f32)).times_power_of_two(-11);
  }

  V undecide() {
    undecided = true;
    return {B::nan(), {}};
  }
  static Bound last_place(const B& r, bool inexact) {
    return inexact && r.kind == B::Kind::finite ? Bound::power_of_two(r.exponent) : Bound{};
  }
  // <= |x| for every x in the ball; zero if it may be zero.
  static Bound lower(const V& v) {
    bool inexact = false;
    B magnitude = v.mid;
    magnitude.negative = false;
    const B r = B::sub(magnitude, v.rad.template big<L>(), inexact);
    return r.negative ? Bound{} : Bound::below(r);
  }
  static Bound upper(const V& v) { return Bound::above(v.mid) + v.rad; }
  static bool may_be_zero(const V& v) { return !v.exact() && v.mid.finite() && lower(v).is_zero(); }

 private:
  static bool overlap(const V& a, const V& b) {
    if (a.exact() && b.exact()) return false;
    if (!a.mid.finite() || !b.mid.finite()) return false;
    bool inexact = false;
    B d = B::sub(a.mid, b.mid, inexact);  // truncated: not above the distance
    d.negative = false;
    return B::compare(d, (a.rad + b.rad).template big<L>()) <= 0;
  }
  static V pick(const V& a, const V& b, int sign) {
    if (a.mid.is_nan() || b.mid.is_nan()) return {B::nan(), {}};
    const V& chosen = sign * B::compare(b.mid, a.mid) > 0 ? b : a;
    if ((a.exact() && b.exact()) || !overlap(a, b)) return chosen;
    return {chosen.mid, a.rad < b.rad ? b.rad : a.rad};
  }
  // mid - rad or mid + rad, moved outward by a unit of the last place if truncated.
  static B end(const V& v, bool low) {
    bool inexact = false;
    const B rad = v.rad.template big<L>();
    B r = low ? B::sub(v.mid, rad, inexact) : B::add(v.mid, rad, inexact);
    if (inexact) {
      bool ignored = false;
      B unit = B::scaled(false, 1, r.exponent);
      r = low ? B::sub(r, unit, ignored) : B::add(r, unit, ignored);  // exact: same last place
    }
    return r;
  }
  static double inside(const B& x, int direction, DType to, Round mode, Subnormals subnormals) {
    if (x.is_zero()) return B::zero(direction < 0).round(to, mode, subnormals, 1);
    return x.round(to, mode, subnormals, x.negative == (direction < 0) ? 1 : -1);
  }
};

// ---- the ladder
// --------------------------------------------------------------------------------------------

[[noreturn]] void throw_undecided();  // the last step did not decide: the formula hits a boundary

// The value of f, rounded once. f is a generic lambda over a number system; truth, if asked for, is
// an f64 value within 2^-10 ULP of f32 of the real one. Throws an internal Error if 2304 bits do
// not decide. kTestRounding = false leaves out the rounding test (tests show that it is needed).
template <bool kTestRounding = true, class F>
double correctly_rounded(F&& f, DType to, Round mode = Round::nearest_even,
                         Subnormals subnormals = Subnormals::keep, double* truth = nullptr,
                         ExactStats* stats = nullptr) {
  double result = 0;
  int steps = 0;
  const auto attempt = [&](auto& system) {
    ++steps;
    system.rounding = mode;
    const auto v = f(system);
    const Rounded r = system.round(v, to, mode, subnormals);
    result = r.value;
    if (!kTestRounding) return true;
    double t = 0;
    const bool known = truth == nullptr || system.truth(v, t);
    if (truth != nullptr) *truth = t;
    return r.decided && known;
  };
  bool done = false;
  {
    RealF64 system;
    done = attempt(system);
  }
  if (!done) {
    RealBig<4> system;
    done = attempt(system);
  }
  if (!done) {
    RealBig<10> system;
    done = attempt(system);
  }
  if (!done) {
    RealBig<36> system;
    done = attempt(system);
  }
  if (stats != nullptr) {
    ++stats->evaluated;
    stats->escalated += steps > 1 ? 1 : 0;
    if (steps > stats->deepest) stats->deepest = steps;
  }
  if (!done) throw_undecided();
  return result;
}

// Compiled once, in real.cpp.
#if !defined(__AVX2__)
extern template class RealBig<4>;
extern template class RealBig<10>;
extern template class RealBig<36>;
#endif

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
