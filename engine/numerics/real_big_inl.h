// The members of RealBig: for real_big.cpp, which compiles the ladder's sizes, and for the
// functions of elementary/real_big.cpp, which compute in sizes of their own.
#pragma once

#include "engine/numerics/real_big.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <int L>
typename RealBig<L>::V RealBig<L>::input(double x) {
  return {B::of(x), {}};
}

template <int L>
typename RealBig<L>::V RealBig<L>::ratio(std::int64_t p, std::int64_t q) {
  return div(integer(p), integer(q));
}

template <int L>
typename RealBig<L>::V RealBig<L>::add(const V& a, const V& b) {
  bool inexact = false;
  const B r = B::add(a.mid, b.mid, inexact);
  if (!r.finite()) return {r, {}};
  if (r.is_zero() && rounding == Round::downward && a.exact() && b.exact()) {
    const bool plus = a.mid.is_zero() && b.mid.is_zero() && !a.mid.negative && !b.mid.negative;
    return {B::zero(!plus), {}};
  }
  return {r, a.rad + b.rad + last_place(r, inexact)};
}

template <int L>
typename RealBig<L>::V RealBig<L>::sub(const V& a, const V& b) {
  return add(a, neg(b));
}

template <int L>
typename RealBig<L>::V RealBig<L>::mul(const V& a, const V& b) {
  if (a.mid.is_nan() || b.mid.is_nan()) return {B::nan(), {}};
  bool inexact = false;
  const B r = B::mul(a.mid, b.mid, inexact);
  if (!r.finite()) return may_be_zero(a) || may_be_zero(b) ? undecide() : V{r, {}};
  Bound rad = last_place(r, inexact);
  if (!a.exact() || !b.exact())
    rad = rad + Bound::above(a.mid) * b.rad + Bound::above(b.mid) * a.rad + a.rad * b.rad;
  return {r, rad};
}

template <int L>
typename RealBig<L>::V RealBig<L>::div(const V& a, const V& b) {
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

template <int L>
typename RealBig<L>::V RealBig<L>::abs(const V& a) {
  V r = a;
  r.mid.negative = false;
  return r;
}

template <int L>
typename RealBig<L>::V RealBig<L>::sqrt(const V& a) {
  if (!a.exact() && (may_be_zero(a) || a.mid.negative)) return undecide();
  bool inexact = false;
  const B r = B::sqrt(a.mid, inexact);
  if (!r.finite()) return {r, {}};
  Bound rad = last_place(r, inexact);
  if (!a.exact()) rad = rad + a.rad / Bound::below(r);  // |sqrt(a +- r) - sqrt(a)| <= r / sqrt(a)
  return {r, rad};
}

template <int L>
typename RealBig<L>::V RealBig<L>::fma(const V& a, const V& b, const V& c) {
  return add(mul(a, b), c);
}

template <int L>
typename RealBig<L>::V RealBig<L>::max(const V& a, const V& b) {
  return pick(a, b, 1);
}

template <int L>
typename RealBig<L>::V RealBig<L>::min(const V& a, const V& b) {
  return pick(a, b, -1);
}

template <int L>
bool RealBig<L>::less(const V& a, const V& b) {
  if (a.mid.is_nan() || b.mid.is_nan()) return false;
  if (overlap(a, b)) undecided = true;
  return B::compare(a.mid, b.mid) < 0;
}

template <int L>
bool RealBig<L>::equal(const V& a, const V& b) {
  if (a.mid.is_nan() || b.mid.is_nan()) return false;
  if (overlap(a, b)) undecided = true;
  return a.exact() && b.exact() && B::compare(a.mid, b.mid) == 0;
}

template <int L>
void RealBig<L>::Sum::add(const V& term) {
  double x;
  if (term.exact() && term.mid.as_double(x))
    exact_.add(x);
  else
    rest_ = a_.add(rest_, term);
}

template <int L>
void RealBig<L>::Sum::add_product(const V& x, const V& y) {
  double p, q;
  if (x.exact() && y.exact() && x.mid.as_double(p) && y.mid.as_double(q))
    exact_.add_product(p, q);
  else
    rest_ = a_.add(rest_, a_.mul(x, y));
}

template <int L>
typename RealBig<L>::V RealBig<L>::Sum::result() {
  bool inexact = false;
  B sum = B::of(exact_, inexact);
  if (sum.is_zero()) sum.negative = bits_of(exact_.round(DType::f64, a_.rounding)) != 0;
  return a_.add(V{sum, last_place(sum, inexact)}, rest_);
}

template <int L>
Rounded RealBig<L>::round(const V& v, DType to, Round mode, Subnormals subnormals) {
  if (v.exact() || !v.mid.finite()) return {v.mid.round(to, mode, subnormals), !undecided};
  const B low = end(v, true), high = end(v, false);
  // The ball is open: its ends are just inside. An end of zero lies inside on the far side.
  const double a = inside(low, 1, to, mode, subnormals), b = inside(high, -1, to, mode, subnormals);
  return {a, bits_of(a) == bits_of(b) && !undecided};
}

template <int L>
double RealBig<L>::radius(const V& v) const {
  return v.rad.template big<L>().round(DType::f64, Round::upward);
}

template <int L>
bool RealBig<L>::truth(const V& v, double& value) const {
  value = v.mid.round(DType::f64);
  if (v.exact() || !is_finite(value)) return true;
  return v.rad < Bound::of(ulp_of(value, DType::f32)).times_power_of_two(-11);
}

template <int L>
typename RealBig<L>::V RealBig<L>::undecide() {
  undecided = true;
  return {B::nan(), {}};
}

template <int L>
Bound RealBig<L>::last_place(const B& r, bool inexact) {
  return inexact && r.kind == B::Kind::finite ? Bound::power_of_two(r.exponent) : Bound{};
}

template <int L>
Bound RealBig<L>::lower(const V& v) {
  bool inexact = false;
  B magnitude = v.mid;
  magnitude.negative = false;
  const B r = B::sub(magnitude, v.rad.template big<L>(), inexact);
  return r.negative ? Bound{} : Bound::below(r);
}

template <int L>
bool RealBig<L>::overlap(const V& a, const V& b) {
  if (a.exact() && b.exact()) return false;
  if (!a.mid.finite() || !b.mid.finite()) return false;
  bool inexact = false;
  B d = B::sub(a.mid, b.mid, inexact);  // truncated: not above the distance
  d.negative = false;
  return B::compare(d, (a.rad + b.rad).template big<L>()) <= 0;
}

template <int L>
typename RealBig<L>::V RealBig<L>::pick(const V& a, const V& b, int sign) {
  if (a.mid.is_nan() || b.mid.is_nan()) return {B::nan(), {}};
  const V& chosen = sign * B::compare(b.mid, a.mid) > 0 ? b : a;
  if ((a.exact() && b.exact()) || !overlap(a, b)) return chosen;
  return {chosen.mid, a.rad < b.rad ? b.rad : a.rad};
}

template <int L>
typename RealBig<L>::B RealBig<L>::end(const V& v, bool low) {
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

template <int L>
double RealBig<L>::inside(const B& x, int direction, DType to, Round mode, Subnormals subnormals) {
  if (x.is_zero()) return B::zero(direction < 0).round(to, mode, subnormals, 1);
  return x.round(to, mode, subnormals, x.negative == (direction < 0) ? 1 : -1);
}

template <int L>
typename RealBig<L>::V RealBig<L>::constant(double x) {
  return {B::of(x), {}};
}

template <int L>
typename RealBig<L>::V RealBig<L>::integer(std::int64_t n) {
  return {B::of_integer(n), {}};
}

template <int L>
typename RealBig<L>::V RealBig<L>::neg(const V& a) {
  return {-a.mid, a.rad};
}

template <int L>
double RealBig<L>::midpoint(const V& v) const {
  return v.mid.round(DType::f64);
}

template <int L>
Bound RealBig<L>::upper(const V& v) {
  return Bound::above(v.mid) + v.rad;
}

template <int L>
bool RealBig<L>::may_be_zero(const V& v) {
  return !v.exact() && v.mid.finite() && lower(v).is_zero();
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
