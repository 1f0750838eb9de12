// Real numbers as balls with a midpoint in f64: for nearly all inputs enough to round to f32 and
// below. The first step of the ladder of real.h, which says what a ball is and how it is used.
#pragma once

#include <cstdint>

#include "engine/numerics/fp.h"
#include "engine/numerics/function.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct Rounded {
  double value;
  bool decided;
};

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

  ETALON_HD V input(double x);
  ETALON_HD V constant(double x);
  ETALON_HD V ratio(std::int64_t p, std::int64_t q);
  ETALON_HD V integer(std::int64_t n);

  ETALON_HD V add(const V& a, const V& b);
  ETALON_HD V sub(const V& a, const V& b);
  ETALON_HD V mul(const V& a, const V& b);
  ETALON_HD V div(const V& a, const V& b);
  ETALON_HD V neg(const V& a);
  ETALON_HD V abs(const V& a);
  ETALON_HD V sqrt(const V& a);
  // The product's error is exact where it can be, so that this rounds once: (s + (t + e)).
  ETALON_HD V fma(const V& a, const V& b, const V& c);
  ETALON_HD V max(const V& a, const V& b);
  ETALON_HD V min(const V& a, const V& b);
  ETALON_HD bool less(const V& a, const V& b);
  ETALON_HD bool equal(const V& a, const V& b);

  ETALON_HD V call(Function f, const V& x);  // elementary/functions.cpp
  ETALON_HD V pow(const V& x, const V& y);

  // Compensated: the parts that f64 additions lose are summed too, with their own error count.
  // While nothing is lost (small integers, zeros), the sum is exact and its radius 0.
  class Sum {
   public:
    ETALON_HD Sum(RealF64& a, std::int64_t /*count*/) : a_(a) {}
    ETALON_HD void add(const V& term);
    ETALON_HD void add_product(const V& x, const V& y);
    ETALON_HD void skip(std::int64_t /*positions*/) {
    }  // a position without a term; real sums have no order
    ETALON_HD V result();

   private:
    ETALON_HD void step(double x) {
      not_plus_zero_ |= bits_of(x);
      const double s = sum_ + x;
      const double t = s - sum_;
      const double e = (sum_ - (s - t)) + (x - t);
      finite_terms_ = finite_terms_ && is_finite(x);
      sum_ = s;
      if (e != 0 && e == e) lose(e);
    }
    ETALON_HD void lose(double e) {
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

  ETALON_HD Rounded round(const V& v, DType to, Round mode = Round::nearest_even,
                          Subnormals subnormals = Subnormals::keep);
  ETALON_HD double midpoint(const V& v) const { return v.mid; }
  ETALON_HD double radius(const V& v) const { return v.rad; }  // an upper bound
  // An f64 value within 2^-10 ULP (of the f32 result) of the real one, if the ball is that small.
  ETALON_HD bool truth(const V& v, double& value) const;

  ETALON_HD V undecide();
  // For functions: a value with a bound on its absolute error.
  ETALON_HD static V with_error(double mid, double rad) { return {mid, rad * kUp + kTiny}; }

 private:
  struct Three {
    V sum, low;
  };
  ETALON_HD V add(const Three& t) { return add(t.sum, t.low); }
  ETALON_HD Three mul_plus(const V& a, const V& b, const V& c);
  // |p - ab|, exact where that is cheap or certain, else a bound.
  ETALON_HD static double product_error(double a, double b, double p);
  // ab - p, or NaN when it is not known. Factors of at most 26 bits (f32 and below) have none.
  ETALON_HD static double product_error_signed(double a, double b, double p);
  ETALON_HD static bool exact_quotient(double a, double b, double q);
  ETALON_HD V overflow(double x, const V& a, const V& b);
  ETALON_HD static V pick(const V& a, const V& b, bool second);
  ETALON_HD void note_overlap(const V& a, const V& b);
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
