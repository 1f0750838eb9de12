// The largest error that any evaluation in a given precision can make: the bound behind a verdict.
//
// AnyOrder is a number system (engine/backend/definition.h). A value stands for a real number r and
// for every number that a program may hold in its place if it evaluates the same formula with unit
// roundoff u: sums in any order, terms split over any number of partial sums, products fused with
// their addition or not, a factor multiplied into the terms or into the sum, a quotient formed with
// a rounded reciprocal, a bias added first, last or in between.
//
// Derivation. One operation without over- or underflow returns (a op b)(1 + d), |d| <= u, where u
// is half a unit in the last place of 1, or a whole one if results are rounded in a direction. An
// input that the format does not hold is rounded into it, before anything else or with its first
// addition (a sum begins at +0). A term t of a sum of n terms passes at most n - 1 additions in any
// binary tree, and r more roundings of its own (1 if it is a product, 1 for each factor distributed
// over the sum, 2 for a divisor). So what is computed is sum t_i (1 + e_i) with |e_i| <= gamma(n -
// 1 + r), gamma(m) = m u / (1 - m u) (Higham, Accuracy and Stability of Numerical Algorithms, 2002,
// lemma 3.1 and section 4.2), and
//
//   |computed - r| <= (1 + gamma) * sum E_i + gamma * sum |t_i| + (1 + gamma) * m * eta
//
// where E_i bounds the error that t_i already had, and eta is the largest absolute error of a
// result that underflows: half the smallest subnormal, 2^-150 in f32 (additions have none; a
// product has; if results are flushed, both have the smallest normal). A sum that is only part of a
// larger sum is kept as (sum t, sum |t|, sum E, n, r) and closed by the last formula when something
// other than an addition or a scaling reads it. A factor above 1, or a divisor below it, makes what
// underflowed before larger: that part joins E. Two single numbers added are rounded once: the
// bound is u |a + b|, and 0 where the sum is a number of the format.
//   a * b      |a| E_b + |b| E_a + E_a E_b + u |ab| + eta
//   a / b      F (1 + 2u + u^2) + (2u + u^2) |a/b| + eta (2 + |a| + E_a),
//                F = (E_a + |a/b| E_b) / (|b| - E_b)
//   sqrt a     S + (2u + u^2) (sqrt(a) + S), S = E_a / (sqrt(a) + sqrt(a - E_a))
//                (x * rsqrt(x) is allowed)
//   f(a)       the image of the ball a +- E_a, and `ulps` of f: the library's published accuracy
//
// Squared distances from a mean. All of them are taken from one number m', off by at most D from
// the mean m, so that their errors are not independent: sum (x_k - m')^2 = sum (x_k - m)^2 + n (m'
// - m)^2. What D does to a variance is of second order. With x_k off by e_k, d_k = x_k - m, and one
// rounding in each distance, the terms that are summed are off by at most
//   G + (2u + u^2) (sum d_k^2 + G),   G = n D^2 + sum e_k (2 (|d_k| + D) + e_k).
// Where m u >= 1, something may overflow, a divisor may be 0 or a comparison may go either way, the
// bound is infinite: no statement.
//
// lambda > 0 gives the probabilistic bound instead: gamma(m) = lambda sqrt(m) u, which holds for
// independent roundings of mean zero with probability 1 - 2 exp(-lambda^2 / 2) each (Higham, Mary,
// SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4); lambda = 6 leaves 3e-8. Roundings in a direction
// are not of mean zero: under them the rigorous bound is given.
//
// The midpoint is the same formula in f64: one of the evaluations covered, with u smaller by 2^-29
// for f32. Its own error, and the roundings of the bound's arithmetic (sums of non-negative
// doubles), are paid for by the factor kUp and by n 2^-52; of f64 itself, by giving the bound
// twice.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/numerics/fp.h"
#include "engine/numerics/function.h"

namespace etalon {

// What a library promises of an elementary function: an error of at most `ulps` units of the last
// place of the format, or at most `absolute`, whichever is larger. 0.5 is correctly rounded.
struct FunctionAccuracy {
  double ulps = 0.5, absolute = 0;
};

struct AnyOrderModel {
  DType acc = DType::f32;  // format of every intermediate result
  double lambda = 0;       // 0: rigorous
  bool flush = false;      // results below the smallest normal may become zeros
  Round round = Round::nearest_even;
  // By Function (engine/numerics/function.h); nullptr: all are correctly rounded.
  const FunctionAccuracy* functions = nullptr;

  // The formats and roundings of a contract, whatever its order.
  static AnyOrderModel of(const Contract& contract) {
    return {.acc = contract.acc,
            .flush = contract.subnormals == Subnormals::flush,
            .round = contract.round};
  }
};

inline namespace ETALON_ISA_NAMESPACE {

class AnyOrder {
 public:
  // The real number, approximately: sum of terms; their own errors; their sizes; how many; the
  // roundings each may meet besides the additions. n = 1 and r = 0: a number as it lies in memory.
  struct V {
    double mid = 0, err = 0, size = 0;
    std::int64_t n = 1, r = 0;
  };
  static constexpr double kUp = 1 + 0x1p-20;

  bool undecided = false;

  explicit AnyOrder(const AnyOrderModel& model);

  V input(double x) const {
    const bool held = static_cast<double>(static_cast<float>(x)) == x && model_.acc == DType::f32;
    return held || model_.acc == DType::f64 ? leaf(x, 0) : constant(x);
  }
  V constant(double x) const;
  V integer(std::int64_t n) const { return constant(static_cast<double>(n)); }
  V ratio(std::int64_t p, std::int64_t q) const;

  V add(const V& a, const V& b) const;
  V sub(const V& a, const V& b) const { return add(a, neg(b)); }
  V mul(const V& a, const V& b) const;
  V div(const V& a, const V& b) const;
  V neg(V a) const {
    a.mid = -a.mid;
    return a;
  }
  V abs(const V& a) const;
  V sqrt(const V& x) const;
  V fma(const V& a, const V& b, const V& c) const;
  V max(const V& a, const V& b);
  V min(const V& a, const V& b);
  bool less(const V& a, const V& b);
  bool equal(const V& a, const V& b);
  V call(Function f, const V& x) const;
  V pow(const V& x, const V& y) const;
  V undecide();
  // A sum that is rounded to one number before anything else is done with it.
  V closed(const V& sum) const { return close(sum); }

  // |any evaluation - real value|, infinite where there is no statement. An infinity or NaN that
  // every evaluation returns has error 0.
  double error(const V& v) const;

  class Sum {
   public:
    Sum(const AnyOrder& a, std::int64_t /*count*/) : a_(a) {}
    void add(const V& t) {
      mid_ += t.mid;
      err_ += t.err;
      n_ += t.n;
      if (t.r > r_) r_ = t.r;
      if (is_finite(t.mid)) size_ += open(t) ? t.size : abs_of(t.mid);
    }
    void add_product(const V& x, const V& y) {
      if (x.n != 1 || y.n != 1 || x.r != 0 || y.r != 0) {
        add(a_.mul(x, y));
        return;
      }
      const double p = x.mid * y.mid, s = abs_of(p);
      mid_ += p;
      size_ += s < kInfinity ? s : 0;
      ++n_;
      products_ = 1;
      if (x.err != 0 || y.err != 0)
        err_ += abs_of(x.mid) * y.err + abs_of(y.mid) * x.err + x.err * y.err;
    }
    void skip(std::int64_t) {}
    V result() const;

   private:
    const AnyOrder& a_;
    double mid_ = 0, err_ = 0, size_ = 0;
    std::int64_t n_ = 0, r_ = 0, products_ = 0;
  };

  // The sum of (x - mean)^2, `mean` being that of all x.
  class SquaredDistances {
   public:
    SquaredDistances(const AnyOrder& a, const V& mean) : a_(a), mean_(a.close(mean)) {}
    void add(const V& x);
    V result() const;

   private:
    const AnyOrder& a_;
    V mean_;
    double sum_ = 0, err_ = 0;
    std::int64_t n_ = 0;
  };

 private:
  static bool open(const V& v) { return v.n != 1 || v.r != 0; }
  static V leaf(double x, double err) { return {x, err, 0, 1, 0}; }
  static V nothing(double x) { return {x, kInfinity, 0, 1, 0}; }
  static bool is_power_of_two(double x) {
    return (bits_of(x) & 0x000fffffffffffffU) == 0 && abs_of(x) >= 0x1p-1022;
  }
  bool in_format(double x) const { return round_to(x, model_.acc) == x; }
  bool is_flushed(double x) const {
    return model_.flush && x != 0 && abs_of(x) < smallest_normal(model_.acc);
  }
  // An operation that yields x exactly stores x.
  bool is_kept(double x) const { return in_format(x) && !is_flushed(x); }

  // A value that is not finite: the same in every evaluation if its operands were exact.
  static V special(double x, const V& a, const V& b);
  double gamma(std::int64_t m) const;
  V close(const V& v) const;
  // What underflows in the operations that close() counts.
  double underflow(const V& sum) const;
  // A partial sum may leave the format even where the sum, scaled afterwards, does not.
  bool overflows(const V& sum) const { return sum.size + sum.err > largest_; }
  // A sum times one number: rounded once at the end, or once in each term.
  V scale(const V& sum, const V& c) const;
  V mul_closed(const V& a, const V& b) const;
  V pick(const V& a, const V& b, bool smaller) const;
  void note_overlap(const V& x, const V& y);
  // The image of a ball under a function of this accuracy; a and b are the operands.
  V of_ball(double mid, double rad, const V& a, const V& b, const FunctionAccuracy& accuracy) const;

  AnyOrderModel model_;
  double u_, eta_, largest_;
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
