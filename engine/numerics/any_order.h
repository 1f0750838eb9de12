// The largest error that any evaluation in a given precision can make: the bound behind a verdict.
//
// AnyOrder is a number system (engine/backend/definition.h). A value stands for a real number r and
// for every number that a program may hold in its place if it evaluates the same formula with unit
// roundoff u: sums in any order, terms split over any number of partial sums, products fused with
// their addition or not, a factor multiplied into the terms or into the sum, a quotient formed with
// a rounded reciprocal, a bias added first, last or in between.
//
// Derivation. One operation without over- or underflow returns (a op b)(1 + d), |d| <= u. A term t
// of a sum of n terms passes at most n - 1 additions in any binary tree, and r more roundings of
// its own (1 if it is a product, 1 for each factor distributed over the sum, 2 for a divisor). So
// what is computed is sum t_i (1 + e_i) with |e_i| <= gamma(n - 1 + r), gamma(m) = m u / (1 - m u)
// (Higham, Accuracy and Stability of Numerical Algorithms, 2002, lemma 3.1 and section 4.2), and
//
//   |computed - r| <= (1 + gamma) * sum E_i + gamma * sum |t_i| + (1 + gamma) * m * eta
//
// where E_i bounds the error that t_i already had, and eta is the largest absolute error of a
// result that underflows: half the smallest subnormal, 2^-150 in f32 (additions have none; a
// product has; if results are flushed, both have the smallest normal). A sum that is only part of a
// larger sum is kept as (sum t, sum |t|, sum E, n, r) and closed by the last formula when something
// other than an addition or a scaling reads it. Two single numbers added are rounded once: the
// bound is u |a + b|, and 0 where the sum is a number of the format.
//   a * b      |a| E_b + |b| E_a + E_a E_b + u |ab| + eta
//   a / b      (E_a + |a/b| E_b) / (|b| - E_b) + (2u + u^2) |a/b| + eta (1 + |a|) + eta
//   sqrt a     E_a / sqrt(a) + 2 u sqrt(a)           (x * rsqrt(x) is allowed)
//   f(a)       the image of the ball a +- E_a, and `ulps` of f: the library's published accuracy
// Where m u >= 1, something may overflow, a divisor may be 0 or a comparison may go either way, the
// bound is infinite: no statement.
//
// lambda > 0 gives the probabilistic bound instead: gamma(m) = lambda sqrt(m) u, which holds for
// independent roundings of mean zero with probability 1 - 2 exp(-lambda^2 / 2) each (Higham, Mary,
// SIAM J. Sci. Comput. 41(5), 2019, theorem 2.4); lambda = 6 leaves 3e-8. Biased roundings
// (toward zero) break its assumption, not the rigorous bound's.
//
// The midpoint is the same formula in f64: one of the evaluations covered, with u smaller by 2^-29
// for f32. Its own error, and the roundings of the bound's arithmetic (sums of non-negative
// doubles), are paid for by the factor kUp and by n 2^-52.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/numerics/fp.h"
#if __has_include("engine/numerics/real.h")
#include "engine/numerics/real.h"
#endif

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
  // By Function (engine/numerics/function.h); nullptr: all are correctly rounded.
  const FunctionAccuracy* functions = nullptr;
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

  explicit AnyOrder(const AnyOrderModel& model)
      : model_(model),
        u_(power_of_two(-format_of(model.acc).precision)),
        eta_(model.flush ? smallest_normal(model.acc) : smallest_subnormal(model.acc) / 2),
        largest_(largest_finite(model.acc)) {}

  V input(double x) const { return leaf(x, 0); }
  V constant(double x) const { return leaf(x, in_format(x) ? 0 : u_ * abs_of(x) + eta_); }
  V integer(std::int64_t n) const { return constant(static_cast<double>(n)); }
  V ratio(std::int64_t p, std::int64_t q) const { return div(integer(p), integer(q)); }

  V add(const V& a, const V& b) const {
    if (a.n == 1 && b.n == 1 && a.r == 0 && b.r == 0) {
      const TwoDoubles s = two_sum(a.mid, b.mid);
      if (!is_finite(s.value)) return special(s.value, a, b);
      if (a.err == 0 && b.err == 0 && s.error == 0 && in_format(s.value)) return leaf(s.value, 0);
      const double e = a.err + b.err;
      return leaf(s.value,
                  e + u_ * (abs_of(s.value) * (1 + 0x1p-50) + e) + (model_.flush ? eta_ : 0));
    }
    V s;
    s.mid = a.mid + b.mid;
    if (!is_finite(s.mid)) return special(s.mid, close(a), close(b));
    s.err = a.err + b.err;
    s.size = (open(a) ? a.size : abs_of(a.mid)) + (open(b) ? b.size : abs_of(b.mid));
    s.n = a.n + b.n;
    s.r = a.r > b.r ? a.r : b.r;
    return s;
  }
  V sub(const V& a, const V& b) const { return add(a, neg(b)); }
  V mul(const V& a, const V& b) const {
    if (open(a) && !open(b)) return scale(a, b);
    if (open(b) && !open(a)) return scale(b, a);
    return mul_closed(close(a), close(b));
  }
  V div(const V& a, const V& b) const {
    const V d = close(b);
    const double q = a.mid / d.mid;
    if (!is_finite(q) || !is_finite(d.mid)) return special(q, close(a), d);
    const double room = abs_of(d.mid) - d.err;
    if (!(room > 0)) return nothing(q);
    if (open(a)) {  // the divisor may be distributed over the terms, as a rounded reciprocal
      if (overflows(a)) return nothing(q);
      const double relative = d.err / room;
      return {q, (a.err + a.size * relative) / room * kUp, a.size / abs_of(d.mid) * kUp, a.n,
              a.r + 2};
    }
    if (a.err == 0 && d.err == 0 && in_format(q) && two_prod(q, d.mid).error == 0 &&
        q * d.mid == a.mid && is_power_of_two(d.mid))
      return leaf(q, 0);
    if (abs_of(q) > largest_) return nothing(q);
    return leaf(q, (a.err + abs_of(q) * d.err) / room + (2 * u_ + u_ * u_) * abs_of(q) +
                       eta_ * (2 + abs_of(a.mid)));
  }
  V neg(V a) const {
    a.mid = -a.mid;
    return a;
  }
  V abs(const V& a) const {
    V r = close(a);
    r.mid = abs_of(r.mid);
    return r;
  }
  V sqrt(const V& x) const {
    const V a = close(x);
    const double s = __builtin_sqrt(a.mid);
    if (!is_finite(s)) return special(s, a, a);
    if (s == 0) return leaf(s, __builtin_sqrt(a.err));
    if (a.err == 0 && in_format(s) && s * s == a.mid && two_prod(s, s).error == 0)
      return leaf(s, 0);
    if (a.err > a.mid) return leaf(s, __builtin_sqrt(a.mid + a.err) * (1 + 2 * u_));
    return leaf(s, a.err / s + 2 * u_ * s);
  }
  V fma(const V& a, const V& b, const V& c) const { return add(mul(a, b), c); }
  V max(const V& a, const V& b) { return pick(close(a), close(b), false); }
  V min(const V& a, const V& b) { return pick(close(a), close(b), true); }
  bool less(const V& a, const V& b) {
    note_overlap(a, b);
    return a.mid < b.mid;
  }
  bool equal(const V& a, const V& b) {
    note_overlap(a, b);
    return a.mid == b.mid;
  }
#if __has_include("engine/numerics/real.h")
  V call(Function f, const V& x) const {
    const V a = close(x);
    if (f == Function::sqrt) return sqrt(a);
    const FunctionAccuracy accuracy = model_.functions == nullptr
                                          ? FunctionAccuracy{}
                                          : model_.functions[static_cast<std::size_t>(f)];
    return of_ball([&](RealF64& real) { return real.call(f, {a.mid, a.err}); }, a, a, accuracy);
  }
  V pow(const V& x, const V& y) const {
    const V a = close(x), b = close(y);
    // pow has no row of its own: exp of a product of a log, at the accuracy of exp and twice more.
    FunctionAccuracy accuracy;
    if (model_.functions != nullptr) {
      accuracy = model_.functions[static_cast<std::size_t>(Function::exp)];
      accuracy.ulps *= 2;
    }
    return of_ball([&](RealF64& real) { return real.pow({a.mid, a.err}, {b.mid, b.err}); }, a, b,
                   accuracy);
  }
#endif
  V undecide() {
    undecided = true;
    return nothing(kNan);
  }

  // |any evaluation - real value|, infinite where there is no statement. An infinity or NaN that
  // every evaluation returns has error 0.
  double error(const V& v) const {
    if (undecided) return kInfinity;
    const V c = close(v);
    if (!is_finite(c.mid)) return c.err;
    return (abs_of(c.mid) + c.err) * (1 + 0x1p-40) > largest_ ? kInfinity : c.err * kUp;
  }

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
    V result() const {
      V v{mid_, err_, size_, n_ < 1 ? 1 : n_, r_ > products_ ? r_ : products_};
      if (!is_finite(mid_)) {
        // A NaN among the terms, or infinities of both signs: no order makes anything else of it.
        // (Doubles do not overflow over terms of a narrower format.)
        if (is_nan(mid_) && err_ < kInfinity && a_.model_.acc != DType::f64)
          return {canonical(mid_), 0, 0, 1, 0};
        // Every order meets the same infinities, unless the finite terms can overflow on the way.
        if (!(size_ * 2 < a_.largest_) || !(err_ == 0)) return nothing(mid_);
        return {canonical(mid_), 0, 0, 1, 0};
      }
      // The n additions of each of these sums were rounded to f64.
      const double up = 1 + static_cast<double>(n_) * 0x1p-52;
      v.err *= up;
      v.size *= up;
      return v;
    }

   private:
    const AnyOrder& a_;
    double mid_ = 0, err_ = 0, size_ = 0;
    std::int64_t n_ = 0, r_ = 0, products_ = 0;
  };

 private:
  static bool open(const V& v) { return v.n != 1 || v.r != 0; }
  static V leaf(double x, double err) { return {x, err, 0, 1, 0}; }
  static V nothing(double x) { return {x, kInfinity, 0, 1, 0}; }
  static bool is_power_of_two(double x) {
    return (bits_of(x) & 0x000fffffffffffffU) == 0 && abs_of(x) >= 0x1p-1022;
  }
  bool in_format(double x) const { return round_to(x, model_.acc) == x; }

  // A value that is not finite: the same in every evaluation if its operands were exact.
  static V special(double x, const V& a, const V& b) {
    if (a.err == 0 && b.err == 0) return leaf(canonical(x), 0);
    // inf combined with an uncertain finite number is still that inf, unless both are uncertain.
    return nothing(canonical(x));
  }
  double gamma(std::int64_t m) const {
    const double x = static_cast<double>(m) * u_;
    const double rigorous = x < 1 ? x / (1 - x) : kInfinity;
    if (model_.lambda == 0) return rigorous;
    const double likely = model_.lambda * __builtin_sqrt(static_cast<double>(m)) * u_;
    return likely < rigorous ? likely : rigorous;
  }
  V close(const V& v) const {
    if (!open(v)) return v;
    const std::int64_t m = v.n - 1 + v.r;
    const double g = gamma(m);
    if (!(g < kInfinity) || v.size * (1 + g) + v.err > largest_) return nothing(v.mid);
    const double tiny = static_cast<double>(model_.flush ? m + v.n : v.r * v.n) * eta_;
    return leaf(v.mid, (v.err + tiny) * (1 + g) + g * v.size);
  }
  // A partial sum may leave the format even where the sum, scaled afterwards, does not.
  bool overflows(const V& sum) const { return sum.size + sum.err > largest_; }
  // A sum times one number: rounded once at the end, or once in each term.
  V scale(const V& sum, const V& c) const {
    const double m = sum.mid * c.mid;
    if (!is_finite(m)) return special(m, close(sum), c);
    if (overflows(sum)) return nothing(m);
    const double f = abs_of(c.mid) + c.err;
    const bool exact = c.err == 0 && is_power_of_two(c.mid);
    return {m, sum.err * f + sum.size * c.err, sum.size * f, sum.n, sum.r + (exact ? 0 : 1)};
  }
  V mul_closed(const V& a, const V& b) const {
    const double p = a.mid * b.mid;
    if (!is_finite(p)) return special(p, a, b);
    if (abs_of(p) > largest_) return nothing(p);
    if (a.err == 0 && b.err == 0) {
      if (p == 0 && (a.mid == 0 || b.mid == 0)) return leaf(p, 0);
      if (in_format(p) && two_prod(a.mid, b.mid).error == 0 && abs_of(p) > 0x1p-900)
        return leaf(p, model_.flush && abs_of(p) < smallest_normal(model_.acc) ? eta_ : 0);
    }
    const double e = abs_of(a.mid) * b.err + abs_of(b.mid) * a.err + a.err * b.err;
    return leaf(p, e + u_ * (abs_of(p) * (1 + 0x1p-50) + e) + eta_);
  }
  V pick(const V& a, const V& b, bool smaller) const {
    if (is_nan(a.mid) || is_nan(b.mid)) return leaf(kNan, is_nan(a.mid) ? a.err : b.err);
    const V& chosen = (smaller ? b.mid < a.mid : a.mid < b.mid) ? b : a;
    if (a.err == 0 && b.err == 0) return chosen;
    if (abs_of(a.mid - b.mid) > (a.err + b.err) * kUp) return chosen;
    return leaf(chosen.mid, a.err > b.err ? a.err : b.err);
  }
  void note_overlap(const V& x, const V& y) {
    const V a = close(x), b = close(y);
    if ((a.err != 0 || b.err != 0) && !(abs_of(a.mid - b.mid) > (a.err + b.err) * kUp))
      undecided = true;
  }
#if __has_include("engine/numerics/real.h")
  template <class F>
  V of_ball(F&& f, const V& a, const V& b, const FunctionAccuracy& accuracy) const {
    RealF64 real;
    const auto v = f(real);
    if (real.undecided) return nothing(v.mid);
    if (!is_finite(v.mid)) return special(v.mid, a, b);
    if (v.rad == 0 && in_format(v.mid) && accuracy.absolute == 0) return leaf(v.mid, 0);
    const double size = abs_of(v.mid) + v.rad;
    const double own = 2 * u_ * accuracy.ulps * size + (2 * accuracy.ulps + 1) * eta_;
    return leaf(v.mid, v.rad * kUp + (own > accuracy.absolute ? own : accuracy.absolute));
  }
#endif

  AnyOrderModel model_;
  double u_, eta_, largest_;
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
