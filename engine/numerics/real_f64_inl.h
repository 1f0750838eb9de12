// The text of RealF64, for those who compile it apart (the GPU). Everyone else links what
// real_f64.cpp compiled.
#pragma once

#include "engine/numerics/real_f64.h"

// NOLINTBEGIN(misc-definitions-in-headers): one source of a program includes this.
namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

namespace f64_ball {

// x moved by an infinitesimal step (direction +1 or -1), rounded: the value of an open interval's
// end.
ETALON_HD inline double round_open(double x, int direction, DType to, Round mode,
                                   Subnormals subnormals) {
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

// Exact zeros stay exact, and have their sign, beside any number that cannot be zero itself: half
// of what follows a ReLU are zeros.
ETALON_HD inline bool is_zero(const RealF64::V& v) { return v.mid == 0 && v.rad == 0; }
ETALON_HD inline bool sign_is_known(const RealF64::V& v) {
  return v.rad == 0 || abs_of(v.mid) > v.rad;
}

}  // namespace f64_ball

ETALON_HD ETALON_APART RealF64::V RealF64::input(double x) { return {canonical(x), 0}; }

ETALON_HD ETALON_APART RealF64::V RealF64::constant(double x) { return {canonical(x), 0}; }

ETALON_HD ETALON_APART RealF64::V RealF64::ratio(std::int64_t p, std::int64_t q) {
  return div(integer(p), integer(q));
}

ETALON_HD ETALON_APART RealF64::V RealF64::integer(std::int64_t n) {
  const double x = static_cast<double>(n);
  return {x,
          n > (std::int64_t{1} << 53) || n < -(std::int64_t{1} << 53) ? ulp_of(x, DType::f64) : 0};
}

ETALON_HD ETALON_APART RealF64::V RealF64::add(const V& a, const V& b) {
  const TwoDoubles s = two_sum(a.mid, b.mid);
  if (!is_finite(s.value)) return overflow(s.value, a, b);
  if (s.value == 0 && rounding == Round::downward && a.rad == 0 && b.rad == 0)
    return {bits_of(a.mid) == 0 && bits_of(b.mid) == 0 ? 0.0 : -0.0, 0};
  return {s.value, (a.rad + b.rad + abs_of(s.error)) * kUp};
}

ETALON_HD ETALON_APART RealF64::V RealF64::sub(const V& a, const V& b) { return add(a, neg(b)); }

ETALON_HD ETALON_APART RealF64::V RealF64::mul(const V& a, const V& b) {
  const double p = a.mid * b.mid;
  if (!is_finite(p)) return overflow(p, a, b);
  using namespace f64_ball;
  if ((is_zero(a) && sign_is_known(b)) || (is_zero(b) && sign_is_known(a))) return {p, 0};
  const double spread = abs_of(a.mid) * b.rad + abs_of(b.mid) * a.rad + a.rad * b.rad;
  const double error = product_error(a.mid, b.mid, p);
  if (spread == 0 && error == 0 && a.rad == 0 && b.rad == 0) return {p, 0};
  return {p, (spread + error) * kUp + kTiny};
}

ETALON_HD ETALON_APART RealF64::V RealF64::div(const V& a, const V& b) {
  const double q = a.mid / b.mid;
  if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
  if (b.rad != 0 && abs_of(b.mid) <= b.rad * 0x1p20) return undecide();
  if (!is_finite(q)) {
    if (b.mid == 0 && a.rad != 0 && abs_of(a.mid) <= a.rad) return undecide();
    if (b.mid == 0) return {canonical(q), 0};
    return overflow(q, a, b);
  }
  if (!is_finite(b.mid)) return a.rad == 0 || abs_of(a.mid) > a.rad ? V{q, 0} : undecide();
  if (f64_ball::is_zero(a)) return {q, 0};  // b's sign is known from here on
  if (a.rad == 0 && b.rad == 0 && exact_quotient(a.mid, b.mid, q)) return {q, 0};
  const double room = abs_of(b.mid) - b.rad;
  return {q, ((a.rad + abs_of(q) * b.rad) / (room * (1 - 0x1p-50)) + abs_of(q) * kU) * kUp + kTiny};
}

ETALON_HD ETALON_APART RealF64::V RealF64::neg(const V& a) {
  return {a.mid == a.mid ? -a.mid : a.mid, a.rad};
}

ETALON_HD ETALON_APART RealF64::V RealF64::abs(const V& a) { return {abs_of(a.mid), a.rad}; }

ETALON_HD ETALON_APART RealF64::V RealF64::sqrt(const V& a) {
  if (a.rad == 0) {
    const double r = canonical(sqrt_f64(a.mid));
    if (r == 0 || !is_finite(r)) return {r, 0};
    const double error = product_error(r, r, r * r);
    if (error == 0 && r * r == a.mid) return {r, 0};
    return {r, r * kU * kUp + kTiny};
  }
  if (!(a.mid > a.rad * kUp)) return undecide();
  const double r = sqrt_f64(a.mid);
  return {r, (a.rad / r + r * kU) * kUp + kTiny};
}

ETALON_HD ETALON_APART RealF64::V RealF64::fma(const V& a, const V& b, const V& c) {
  return add(mul_plus(a, b, c));
}

ETALON_HD ETALON_APART RealF64::V RealF64::max(const V& a, const V& b) {
  if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
  return pick(a, b, b.mid > a.mid);
}

ETALON_HD ETALON_APART RealF64::V RealF64::min(const V& a, const V& b) {
  if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
  return pick(a, b, b.mid < a.mid);
}

ETALON_HD ETALON_APART bool RealF64::less(const V& a, const V& b) {
  note_overlap(a, b);
  return a.mid < b.mid;
}

ETALON_HD ETALON_APART bool RealF64::equal(const V& a, const V& b) {
  if (is_nan(a.mid) || is_nan(b.mid)) return false;
  note_overlap(a, b);
  return a.rad == 0 && b.rad == 0 && a.mid == b.mid;
}

ETALON_HD ETALON_APART void RealF64::Sum::add(const V& term) {
  rad_ += term.rad;
  step(term.mid);
  radii_ += term.rad != 0 ? 1 : 0;
}

ETALON_HD ETALON_APART void RealF64::Sum::add_product(const V& x, const V& y) {
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

ETALON_HD ETALON_APART RealF64::V RealF64::Sum::result() {
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

ETALON_HD ETALON_APART Rounded RealF64::round(const V& v, DType to, Round mode,
                                              Subnormals subnormals) {
  if (v.rad == 0 || !is_finite(v.mid)) return {round_to(v.mid, to, mode, subnormals), !undecided};
  if (to == DType::f32 && mode == Round::nearest_even && subnormals == Subnormals::keep) {
    // Two units of mid more than the radius cover the rounding of mid - r and mid + r.
    const double r = v.rad + abs_of(v.mid) * 0x1p-52;
    const float low = static_cast<float>(v.mid - r), high = static_cast<float>(v.mid + r);
    if (bits_of(low) == bits_of(high) && low == low) return {static_cast<double>(low), !undecided};
  }
  const TwoDoubles low = two_sum(v.mid, -v.rad), high = two_sum(v.mid, v.rad);
  if (to == DType::f64 || !is_finite(low.value) || !is_finite(high.value)) return {v.mid, false};
  const double l = low.error < 0 ? next_down(low.value) : low.value;
  const double h = high.error > 0 ? next_up(high.value) : high.value;
  const double a = f64_ball::round_open(l, 1, to, mode, subnormals),
               b = f64_ball::round_open(h, -1, to, mode, subnormals);
  return {a, bits_of(a) == bits_of(b) && !undecided};
}

ETALON_HD ETALON_APART bool RealF64::truth(const V& v, double& value) const {
  value = v.mid;
  return v.rad == 0 || !is_finite(v.mid) || v.rad <= ulp_of(v.mid, DType::f32) * 0x1p-11;
}

ETALON_HD ETALON_APART RealF64::V RealF64::undecide() {
  undecided = true;
  return {kNan, 0};
}

ETALON_HD ETALON_APART RealF64::Three RealF64::mul_plus(const V& a, const V& b, const V& c) {
  const V p = mul(a, b);
  if (a.rad != 0 || b.rad != 0 || p.rad == 0 || !is_finite(p.mid)) return {p, c};
  const double e = product_error_signed(a.mid, b.mid, p.mid);
  if (is_nan(e)) return {p, c};
  const TwoDoubles s = two_sum(p.mid, c.mid);
  if (!is_finite(s.value)) return {p, c};
  return {{s.value, c.rad}, add(V{s.error, 0}, V{e, 0})};
}

ETALON_HD ETALON_APART double RealF64::product_error(double a, double b, double p) {
  const double e = product_error_signed(a, b, p);
  return is_nan(e) ? abs_of(p) * kU + kTiny : abs_of(e);
}

ETALON_HD ETALON_APART double RealF64::product_error_signed(double a, double b, double p) {
  if (a == 0 || b == 0) return 0;
  const double size = abs_of(p);
  if (!(size > 0x1p-900 && abs_of(a) < 0x1p900 && abs_of(b) < 0x1p900)) return kNan;
  if (((bits_of(a) | bits_of(b)) & 0x7ffffffU) == 0) return 0;
  return two_prod(a, b).error;
}

ETALON_HD ETALON_APART bool RealF64::exact_quotient(double a, double b, double q) {
  if (q == 0) return a == 0;
  const double p = q * b;
  return p == a && product_error_signed(q, b, p) == 0;
}

ETALON_HD ETALON_APART RealF64::V RealF64::overflow(double x, const V& a, const V& b) {
  if (is_nan(a.mid) || is_nan(b.mid)) return {kNan, 0};
  if (is_finite(a.mid) && is_finite(b.mid)) return undecide();
  // inf times a ball that may be zero or of either sign; inf and exact values are plain IEEE.
  if ((a.rad != 0 && abs_of(a.mid) <= a.rad) || (b.rad != 0 && abs_of(b.mid) <= b.rad))
    return undecide();
  return {canonical(x), 0};
}

ETALON_HD ETALON_APART RealF64::V RealF64::pick(const V& a, const V& b, bool second) {
  // max is 1-Lipschitz in the larger of both errors; disjoint balls keep their own.
  const V& chosen = second ? b : a;
  if (a.rad == 0 && b.rad == 0) return chosen;
  if (abs_of(a.mid - b.mid) > (a.rad + b.rad) * kUp + abs_of(a.mid) * 0x1p-52) return chosen;
  return {chosen.mid, a.rad > b.rad ? a.rad : b.rad};
}

ETALON_HD ETALON_APART void RealF64::note_overlap(const V& a, const V& b) {
  if ((a.rad != 0 || b.rad != 0) && is_finite(a.mid) && is_finite(b.mid) &&
      !(abs_of(a.mid - b.mid) > (a.rad + b.rad + abs_of(a.mid) * 0x1p-52) * kUp))
    undecided = true;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
// NOLINTEND(misc-definitions-in-headers)
