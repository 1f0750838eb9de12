#include "engine/numerics/lp_norm.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {
namespace {

// p = n / 2^s with few factors to multiply.
bool small_ratio(double p, int& n, int& s) {
  constexpr int kMostSquares = 4;
  constexpr double kMostFactors = 64;
  for (s = 0; s <= kMostSquares; ++s, p *= 2) {
    if (!(p >= 1 && p <= kMostFactors)) continue;
    n = static_cast<int>(p);
    if (p == n) return true;
  }
  return false;
}

}  // namespace

void LpScale::take(double x) {
  if (x == 0) return;
  if (!is_finite(x)) {
    plain_ = false;
    return;
  }
  int exponent = 0;
  auto m = static_cast<std::uint64_t>(std::frexp(abs_of(x), &exponent) * 0x1p53);
  const int zeros = __builtin_ctzll(m);
  m >>= zeros;
  exponent += zeros - 53;
  lowest_ = odd_ == 0 ? exponent : std::min(lowest_, exponent);
  highest_ = odd_ == 0 ? exponent : std::max(highest_, exponent);
  odd_ = std::gcd(odd_, m);
}

double LpScale::divisor() const {
  if (!plain_ || odd_ == 0 || highest_ - lowest_ > 900 || lowest_ > 900) return 1;
  return std::ldexp(static_cast<double>(odd_), lowest_);
}

void LpElements::take(double x) {
  const double size = abs_of(x);
  if (!is_finite(x)) plain_ = false;
  if (size == 0) return;
  if (largest_ > 0) ++others_;
  second_ = std::max(second_, std::min(largest_, size));
  largest_ = std::max(largest_, size);
}

bool LpElements::outweighed(double p) const {
  if (!plain_ || others_ == 0) return false;
  // Of neighbours the logarithms would cancel: log(l / s) >= (l - s) / l, and 1.44 < log2 e.
  const double bits = largest_ < 2 * second_ ? (largest_ - second_) / largest_ * 1.44
                                             : std::log2(largest_) - std::log2(second_);
  // d = others (second / largest)^p < 2^-1100, which no ratio of doubles reaches unless p > 1/2;
  // (1 + d)^(1/p) - 1 < 2 d / p.
  return p * bits > 1110 + std::log2(static_cast<double>(others_));
}

template <int L>
typename RealBig<L>::V beside(const typename RealBig<L>::V& q, int side) {
  using B = Big<L>;
  if (q.mid.is_zero() || !q.mid.finite()) return q;
  const auto wide = [&]() -> typename RealBig<L>::V {
    return {q.mid, q.rad + (Bound::above(q.mid) + q.rad).times_power_of_two(-1000)};
  };
  if (!q.exact()) return wide();
  const std::int64_t k = q.mid.exponent + 64 * L - 1 - 100;
  const B step = B::scaled(false, 1, k);
  bool inexact = false;
  const B mid =
      (side > 0) == !q.mid.negative ? B::add(q.mid, step, inexact) : B::sub(q.mid, step, inexact);
  if (inexact) return wide();  // too long for a boundary
  return {mid, Bound::power_of_two(k)};
}

template RealBig<4>::V beside<4>(const RealBig<4>::V&, int);
template RealBig<10>::V beside<10>(const RealBig<10>::V&, int);
template RealBig<36>::V beside<36>(const RealBig<36>::V&, int);

template <int L>
typename RealBig<L>::V real_root(RealBig<L>& a, const typename RealBig<L>::V& x, double p) {
  using B = Big<L>;
  const typename RealBig<L>::V r = a.pow(x, a.div(a.constant(1), a.constant(p)));
  const auto plain = [](const B& b) { return b.finite() && !b.is_zero(); };
  int n = 0, s = 0;
  if (!x.exact() || r.exact() || !plain(x.mid) || !plain(r.mid) || !small_ratio(p, n, s)) return r;

  // Values of formats and the midpoints between them have at most 54 bits; the nearest number of 54
  // bits is the only one that a small ball can hold.
  const std::uint64_t top = r.mid.limb[L - 1];
  const B c = B::scaled(false, (top >> 10) + (top >> 9 & 1), r.mid.exponent + 64 * (L - 1) + 10);
  bool inexact = false;
  B power = c, square = x.mid;
  for (int i = 1; i < n; ++i) power = B::mul(power, c, inexact);
  for (int i = 0; i < s; ++i) square = B::mul(square, square, inexact);
  B gap = B::sub(r.mid, c, inexact);
  gap.negative = false;
  if (inexact || r.rad < Bound::below(gap)) return r;  // too long to compare, or c is no candidate
  const int side = B::compare(square, power);
  if (side == 0) return {c, {}};
  // The root lies within `reach` of c, on this side: inside the open ball from c to c + 2^(k+1),
  // k large enough that c + 2^k is exact.
  const Bound reach = Bound::above(gap) + r.rad;
  const std::int64_t k = std::max(reach.e + 32, c.exponent + 2);
  const B step = B::scaled(false, 1, k);
  const B mid = side > 0 ? B::add(c, step, inexact) : B::sub(c, step, inexact);
  return inexact ? r : typename RealBig<L>::V{mid, Bound::power_of_two(k)};
}

template RealBig<4>::V real_root(RealBig<4>&, const RealBig<4>::V&, double);
template RealBig<10>::V real_root(RealBig<10>&, const RealBig<10>::V&, double);
template RealBig<36>::V real_root(RealBig<36>&, const RealBig<36>::V&, double);

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
