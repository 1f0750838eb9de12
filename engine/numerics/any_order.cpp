#include "engine/numerics/any_order.h"

#include <algorithm>

#include "engine/numerics/real_f64.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

AnyOrder::AnyOrder(const AnyOrderModel& model)
    : model_(model),
      u_(power_of_two(-format_of(model.acc).precision)),
      eta_(std::max(smallest_subnormal(model.acc) / 2, 0x1p-1074)),  // of f64, no half exists
      largest_(largest_finite(model.acc)) {
  if (model.round != Round::nearest_even) {
    u_ *= 2;
    eta_ *= 2;
    model_.lambda = 0;
  }
  if (model.flush) eta_ = smallest_normal(model.acc);
}

AnyOrder::V AnyOrder::constant(double x) const {
  if (!is_finite(x)) return leaf(canonical(x), 0);
  if (abs_of(x) * (1 + u_) > largest_) return in_format(x) ? leaf(x, 0) : nothing(x);
  return leaf(x, is_kept(x) ? 0 : u_ * abs_of(x) + eta_);
}

AnyOrder::V AnyOrder::ratio(std::int64_t p, std::int64_t q) const {
  return div(integer(p), integer(q));
}

AnyOrder::V AnyOrder::add(const V& a, const V& b) const {
  if (a.n == 1 && b.n == 1 && a.r == 0 && b.r == 0) {
    const TwoDoubles s = two_sum(a.mid, b.mid);
    if (!is_finite(s.value)) return special(s.value, a, b);
    if (a.err == 0 && b.err == 0 && s.error == 0 && is_kept(s.value)) return leaf(s.value, 0);
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

AnyOrder::V AnyOrder::mul(const V& a, const V& b) const {
  if (open(a) && !open(b)) return scale(a, b);
  if (open(b) && !open(a)) return scale(b, a);
  return mul_closed(close(a), close(b));
}

AnyOrder::V AnyOrder::div(const V& a, const V& b) const {
  const V d = close(b);
  const double q = a.mid / d.mid;
  if (!is_finite(q) || !is_finite(d.mid)) return special(q, close(a), d);
  const double room = abs_of(d.mid) - d.err;
  if (!(room > 0)) return nothing(q);
  if (open(a)) {  // the divisor may be distributed over the terms, as a rounded reciprocal
    if (overflows(a)) return nothing(q);
    const double relative = d.err / room, lost = room < 1 ? underflow(a) : 0;
    return {q, ((a.err + lost + a.size * relative) / room + eta_ * a.size) * kUp,
            a.size / abs_of(d.mid) * kUp, a.n, a.r + 2};
  }
  if (a.err == 0 && d.err == 0 && is_kept(q) && two_prod(q, d.mid).error == 0 &&
      q * d.mid == a.mid && is_power_of_two(d.mid))
    return leaf(q, 0);
  if (abs_of(q) > largest_) return nothing(q);
  const double moved = (a.err + abs_of(q) * d.err) / room, twice = 2 * u_ + u_ * u_;
  return leaf(q, moved + twice * (abs_of(q) + moved) + eta_ * (2 + abs_of(a.mid) + a.err));
}

AnyOrder::V AnyOrder::abs(const V& a) const {
  V r = close(a);
  r.mid = abs_of(r.mid);
  return r;
}

AnyOrder::V AnyOrder::sqrt(const V& x) const {
  const V a = close(x);
  const double s = __builtin_sqrt(a.mid);
  if (!is_finite(s)) return special(s, a, a);
  if (a.err == 0 && in_format(s) && s * s == a.mid && two_prod(s, s).error == 0) return leaf(s, 0);
  const double twice = 2 * u_ + u_ * u_;
  if (a.err >= a.mid) return leaf(s, __builtin_sqrt(a.mid + a.err) * (1 + twice));
  const double moved = a.err / (s + __builtin_sqrt(a.mid - a.err));
  return leaf(s, moved + twice * (s + moved));
}

AnyOrder::V AnyOrder::fma(const V& a, const V& b, const V& c) const { return add(mul(a, b), c); }

AnyOrder::V AnyOrder::max(const V& a, const V& b) { return pick(close(a), close(b), false); }

AnyOrder::V AnyOrder::min(const V& a, const V& b) { return pick(close(a), close(b), true); }

bool AnyOrder::less(const V& a, const V& b) {
  note_overlap(a, b);
  return a.mid < b.mid;
}

bool AnyOrder::equal(const V& a, const V& b) {
  note_overlap(a, b);
  return a.mid == b.mid;
}

AnyOrder::V AnyOrder::call(Function f, const V& x) const {
  const V a = close(x);
  if (f == Function::sqrt) return sqrt(a);
  const FunctionAccuracy accuracy = model_.functions == nullptr
                                        ? FunctionAccuracy{}
                                        : model_.functions[static_cast<std::size_t>(f)];
  RealF64 real;
  const RealF64::V v = real.call(f, {a.mid, a.err});
  return real.undecided ? nothing(v.mid) : of_ball(v.mid, v.rad, a, a, accuracy);
}

AnyOrder::V AnyOrder::pow(const V& x, const V& y) const {
  const V a = close(x), b = close(y);
  // pow has no row of its own: exp of a product of a log, at the accuracy of exp and twice more.
  FunctionAccuracy accuracy;
  if (model_.functions != nullptr) {
    accuracy = model_.functions[static_cast<std::size_t>(Function::exp)];
    accuracy.ulps *= 2;
  }
  RealF64 real;
  const RealF64::V v = real.pow({a.mid, a.err}, {b.mid, b.err});
  return real.undecided ? nothing(v.mid) : of_ball(v.mid, v.rad, a, b, accuracy);
}

AnyOrder::V AnyOrder::undecide() {
  undecided = true;
  return nothing(kNan);
}

double AnyOrder::error(const V& v) const {
  if (undecided) return kInfinity;
  const V c = close(v);
  if (!(c.err < kInfinity)) return kInfinity;  // NaN too: nothing is known, times an error of 0
  if (!is_finite(c.mid)) return c.err;
  if ((abs_of(c.mid) + c.err) * (1 + 0x1p-40) > largest_) return kInfinity;
  return c.err * (model_.acc == DType::f64 ? 2 * kUp : kUp);
}

AnyOrder::V AnyOrder::Sum::result() const {
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

void AnyOrder::SquaredDistances::add(const V& x) {
  const V given = a_.close(x);
  const double d = given.mid - mean_.mid, e = given.err + (a_.model_.flush ? a_.eta_ : 0);
  sum_ += d * d;
  err_ += mean_.err * mean_.err + e * (2 * (abs_of(d) + mean_.err) + e);
  ++n_;
}

AnyOrder::V AnyOrder::SquaredDistances::result() const {
  // NaN of exact operands: every evaluation makes it.
  if (is_nan(sum_) && mean_.err < kInfinity) return leaf(kNan, 0);
  if (!is_finite(sum_) || !(err_ < kInfinity)) return nothing(sum_);
  const double twice = 2 * a_.u_ + a_.u_ * a_.u_, up = 1 + static_cast<double>(n_) * 0x1p-52;
  const double err = err_ + twice * (sum_ + err_);
  return {sum_, err * up, sum_ * up, n_ < 1 ? 1 : n_, 1};
}

AnyOrder::V AnyOrder::special(double x, const V& a, const V& b) {
  if (a.err == 0 && b.err == 0) return leaf(canonical(x), 0);
  // inf combined with an uncertain finite number is still that inf, unless both are uncertain.
  return nothing(canonical(x));
}

double AnyOrder::gamma(std::int64_t m) const {
  const double x = static_cast<double>(m) * u_;
  const double rigorous = x < 1 ? x / (1 - x) : kInfinity;
  if (model_.lambda == 0) return rigorous;
  const double likely = model_.lambda * __builtin_sqrt(static_cast<double>(m)) * u_;
  return likely < rigorous ? likely : rigorous;
}

AnyOrder::V AnyOrder::close(const V& v) const {
  if (!open(v)) return v;
  const std::int64_t m = v.n - 1 + v.r;
  const double g = gamma(m);
  if (!(g < kInfinity) || v.size * (1 + g) + v.err > largest_) return nothing(v.mid);
  return leaf(v.mid, (v.err + underflow(v)) * (1 + g) + g * v.size);
}

double AnyOrder::underflow(const V& sum) const {
  return static_cast<double>((model_.flush ? sum.r + 2 : sum.r) * sum.n) * eta_;
}

AnyOrder::V AnyOrder::scale(const V& sum, const V& c) const {
  const double m = sum.mid * c.mid;
  if (!is_finite(m)) return special(m, close(sum), c);
  if (overflows(sum)) return nothing(m);
  const double f = abs_of(c.mid) + c.err, lost = f > 1 ? underflow(sum) : 0;
  const bool exact = c.err == 0 && is_power_of_two(c.mid);  // but for what underflows
  const double fresh = exact && f < 1 ? static_cast<double>(sum.n) * eta_ : 0;
  return {m, (sum.err + lost) * f + sum.size * c.err + fresh, sum.size * f, sum.n,
          sum.r + (exact ? 0 : 1)};
}

AnyOrder::V AnyOrder::mul_closed(const V& a, const V& b) const {
  const double p = a.mid * b.mid;
  if (!is_finite(p)) return special(p, a, b);
  if (abs_of(p) > largest_) return nothing(p);
  if (a.err == 0 && b.err == 0) {
    if (p == 0 && (a.mid == 0 || b.mid == 0)) return leaf(p, 0);
    if (in_format(p) && two_prod(a.mid, b.mid).error == 0 && abs_of(p) > 0x1p-900)
      return leaf(p, is_flushed(p) ? eta_ : 0);
  }
  const double e = abs_of(a.mid) * b.err + abs_of(b.mid) * a.err + a.err * b.err;
  return leaf(p, e + u_ * (abs_of(p) * (1 + 0x1p-50) + e) + eta_);
}

AnyOrder::V AnyOrder::pick(const V& a, const V& b, bool smaller) const {
  if (is_nan(a.mid) || is_nan(b.mid)) return leaf(kNan, is_nan(a.mid) ? a.err : b.err);
  const V& chosen = (smaller ? b.mid < a.mid : a.mid < b.mid) ? b : a;
  if (a.err == 0 && b.err == 0) return chosen;
  if (abs_of(a.mid - b.mid) > (a.err + b.err) * kUp) return chosen;
  return leaf(chosen.mid, a.err > b.err ? a.err : b.err);
}

void AnyOrder::note_overlap(const V& x, const V& y) {
  const V a = close(x), b = close(y);
  if ((a.err != 0 || b.err != 0) && !(abs_of(a.mid - b.mid) > (a.err + b.err) * kUp))
    undecided = true;
}

AnyOrder::V AnyOrder::of_ball(double mid, double rad, const V& a, const V& b,
                              const FunctionAccuracy& accuracy) const {
  if (!is_finite(mid)) return special(mid, a, b);
  // A library that promises a few units promises no more where the value is a number of the format.
  if (rad == 0 && in_format(mid) && accuracy.absolute == 0 && accuracy.ulps <= 0.5)
    return leaf(mid, 0);
  const double size = abs_of(mid) + rad;
  const double own = 2 * u_ * accuracy.ulps * size + (2 * accuracy.ulps + 1) * eta_;
  return leaf(mid, rad * kUp + (own > accuracy.absolute ? own : accuracy.absolute));
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
