// Series of elementary functions over balls of 64 L bits, for real_big.cpp.
//
// Every formula runs in ball arithmetic, which carries its rounding errors by itself; what is added
// by hand is the tail of each series, bounded by a geometric one, and the error of an inexact
// argument, |f'| times its radius. Plain series after argument reduction, no attempt at speed.
#pragma once

#include "engine/numerics/elementary/constants.h"
#include "engine/numerics/elementary/f64_core.h"
#include "engine/numerics/real_big_inl.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

template <int L>
struct BigSeries {
  using A = RealBig<L>;
  using B = Big<L>;
  using V = typename A::V;
  static constexpr int kBits = 64 * L;
  static constexpr std::int64_t kHugeExponent = std::int64_t{1} << 41;
  A& a;

  V number(double x) { return {B::of(x), {}}; }
  V constant_of(const std::uint64_t (&table)[64], int exponent) {
    bool inexact = false;
    V v{B::normalized(false, table, 64, exponent - 4096, inexact), {}};
    v.rad = Bound::power_of_two(v.mid.exponent);
    return v;
  }
  V pi() { return constant_of(tables::kPiLimbs, tables::kPiExponent); }
  V ln2() { return constant_of(tables::kLn2Limbs, tables::kLn2Exponent); }
  V ln10() { return constant_of(tables::kLn10Limbs, tables::kLn10Exponent); }
  static V scaled(const V& v, std::int64_t e) {
    return {v.mid.times_power_of_two(e), v.rad.times_power_of_two(e)};
  }
  static V widened(V v, const Bound& b) {
    v.rad = v.rad + b;
    return v;
  }
  static V with_sign_of(V v, bool negative) {
    v.mid.negative = negative;
    return v;
  }
  V huge() { return {B::scaled(false, 1, kHugeExponent), Bound::power_of_two(kHugeExponent - 1)}; }
  V tiny() {
    return {B::scaled(false, 1, -kHugeExponent), Bound::power_of_two(-kHugeExponent - 1)};
  }
  // The open ball that ends at a limit, one or two units of the last place wide.
  V just_below(double limit) {  // in magnitude
    bool ignored = false;
    const B x = B::of(limit);
    B unit = B::scaled(limit < 0, 1, x.exponent);
    return {B::sub(x, unit, ignored), Bound::power_of_two(x.exponent)};
  }
  // Below 2^e in magnitude.
  static bool below(const B& x, std::int64_t e) { return x.is_zero() || x.top_exponent() < e; }
  static double head(const B& x) { return x.round(DType::f64, Round::toward_zero); }
  static B magnitude(B x) {
    x.negative = false;
    return x;
  }

  // sum of s^n/n!, n >= first, |s| < 1: the tail is below twice its first term.
  V exp_series(const V& s, int first) {
    V sum = number(0), term = number(1);
    for (int n = 1;; ++n) {
      if (n > first) sum = a.add(sum, term);
      term = a.div(a.mul(term, s), a.integer(n));
      const bool small =
          term.mid.is_zero() ||
          term.mid.top_exponent() <
              (sum.mid.is_zero() ? -(std::int64_t{1} << 60) : sum.mid.top_exponent()) - kBits - 4;
      if (n > first && small) break;
    }
    return widened(sum, A::upper(term) + A::upper(term));
  }
  V exp(const B& x) {
    if (x.is_zero()) return number(1);
    if (!below(x, 40)) return x.negative ? tiny() : huge();
    const auto k = static_cast<std::int64_t>(head(x) / tables::kLn2 + (x.negative ? -0.5 : 0.5));
    V r = a.sub(V{x, {}}, a.mul(a.integer(k), ln2()));
    constexpr int kHalvings = L <= 4 ? 10 : L <= 10 ? 18 : 34;
    V y = exp_series(scaled(r, -kHalvings), 0);
    for (int i = 0; i < kHalvings; ++i) y = a.mul(y, y);
    return scaled(y, k);
  }
  V expm1(const B& x) {
    if (below(x, -1)) return exp_series(V{x, {}}, 1);
    if (head(x) < -kBits) return just_below(-1);  // e^x < 2^-(1.44 * 64 L)
    return a.sub(exp(x), number(1));
  }

  // 2 atanh(z), |z| < 1/2: odd terms, the tail below 4/3 of its first term.
  V twice_atanh(const V& z) {
    const V square = a.mul(z, z);
    V power = z, sum = z;
    for (int n = 3;; n += 2) {
      power = a.mul(power, square);
      const V term = a.div(power, a.integer(n));
      sum = a.add(sum, term);
      if (term.mid.is_zero() || term.mid.top_exponent() < sum.mid.top_exponent() - kBits - 4)
        return scaled(widened(sum, A::upper(term)), 1);  // ratio below 1/4
    }
  }
  V log1p_series(const V& t) {  // |t| < 2^-8
    if (t.mid.is_zero() && t.exact()) return number(0);
    return twice_atanh(a.div(t, a.add(number(2), t)));
  }
  // log x = y + log1p(x e^-y - 1) with y = log x in f64.
  V log(const B& x) {
    const std::int64_t e = x.top_exponent();
    const double m = head(x.times_power_of_two(-e));
    const std::int64_t k = m > 1.4 ? e + 1 : e;
    const double z = m > 1.4 ? 0.5 * m : m;
    const V y = number(z == 1 ? 0 : f64_core::log(z, 0));
    V r{x.times_power_of_two(-k), {}};
    if (!y.mid.is_zero()) r = a.mul(r, exp(-y.mid));
    r = a.add(y, log1p_series(a.sub(r, number(1))));
    return k == 0 ? r : a.add(r, a.mul(a.integer(k), ln2()));
  }
  V log1p(const B& x) {
    if (below(x, -8)) return log1p_series(V{x, {}});
    bool inexact = false;
    const B y = B::add(B::of(1), x, inexact);
    if (!inexact) return log(y);
    V r = log(y);
    return widened(r, Bound::power_of_two(y.exponent) / Bound::below(y) +
                          Bound::power_of_two(y.exponent) / Bound::below(y));
  }

  struct SinCos {
    V sin, cos;
  };
  SinCos sin_cos_series(const V& r) {  // |r| < 1.2: alternating, the tail below its first term
    V sine = number(0), cosine = number(0), term = number(1);
    for (int n = 0;; ++n) {
      const V t = (n & 2) != 0 ? a.neg(term) : term;
      if ((n & 1) != 0)
        sine = a.add(sine, t);
      else
        cosine = a.add(cosine, t);
      term = a.div(a.mul(term, r), a.integer(n + 1));
      if (n > 1 &&
          (term.mid.is_zero() || term.mid.top_exponent() < sine.mid.top_exponent() - kBits - 4)) {
        const Bound tail = A::upper(term) + A::upper(term);
        return {widened(sine, tail), widened(cosine, tail)};
      }
    }
  }
  struct Reduced {
    int quadrant;
    V r;
  };
  // x - q pi/2 with enough limbs for |x| < 2^1024.
  Reduced reduce(const B& x) {
    constexpr int W = L + 18;
    RealBig<W> wide;
    BigSeries<W> f{wide};
    bool inexact = false;
    const Big<W> wx = Big<W>::of(x, inexact);
    const auto half_pi = f.pi();
    const auto quotient =
        wide.div(typename RealBig<W>::V{wx, {}}, BigSeries<W>::scaled(half_pi, -1));
    // The integer nearest to the quotient; which one, if two are near, does not matter.
    Big<W> q = Big<W>::add(BigSeries<W>::magnitude(quotient.mid), Big<W>::of(0.5), inexact);
    int low_bits = 0;
    if (q.top_exponent() < 0) {
      q = Big<W>::zero();
    } else {
      const std::int64_t fraction = -q.exponent;  // bits below the binary point
      const int whole = static_cast<int>(fraction / 64), part = static_cast<int>(fraction % 64);
      for (int i = 0; i < whole; ++i) q.limb[static_cast<std::size_t>(i)] = 0;
      std::uint64_t& limb = q.limb[static_cast<std::size_t>(whole)];
      limb = limb >> part << part;
      low_bits = static_cast<int>(limb >> part & 3);
      if (part == 63 && whole + 1 < W)
        low_bits =
            static_cast<int>((limb >> 63) | (q.limb[static_cast<std::size_t>(whole + 1)] & 1) << 1);
    }
    q.negative = x.negative;
    const auto r =
        wide.sub(typename RealBig<W>::V{wx, {}},
                 wide.mul(typename RealBig<W>::V{q, {}}, BigSeries<W>::scaled(half_pi, -1)));
    bool cut = false;
    const B mid = B::of(r.mid, cut);
    return {(x.negative ? -low_bits : low_bits) & 3, {mid, r.rad + A::last_place(mid, cut)}};
  }
  SinCos sin_cos(const B& x) {
    if (below(x, -1)) return sin_cos_series(V{x, {}});
    const Reduced t = reduce(x);
    const SinCos s = sin_cos_series(t.r);
    switch (t.quadrant) {
      case 0:
        return s;
      case 1:
        return {s.cos, a.neg(s.sin)};
      case 2:
        return {a.neg(s.sin), a.neg(s.cos)};
      default:
        return {a.neg(s.cos), s.sin};
    }
  }

  V atan_series(const V& t) {  // |t| < 2^-8
    if (t.mid.is_zero() && t.exact()) return t;
    const V square = a.mul(t, t);
    V power = t, sum = t;
    for (int n = 3;; n += 2) {
      power = a.mul(power, square);
      const V term = a.div(power, a.integer(n));
      sum = (n & 2) != 0 ? a.sub(sum, term) : a.add(sum, term);
      if (term.mid.is_zero() || term.mid.top_exponent() < sum.mid.top_exponent() - kBits - 4)
        return widened(sum, A::upper(term));
    }
  }
  // atan x = y + atan((x - tan y)/(1 + x tan y)), y = atan x in f64.
  V atan(const V& x) {
    if (!below(x.mid, 1)) {  // |x| >= 2
      const V quarter = scaled(pi(), -1);
      const V rest = atan(a.div(number(1), x));
      return a.sub(x.mid.negative ? a.neg(quarter) : quarter, rest);
    }
    if (below(x.mid, -8)) return atan_series(x);
    const double y = f64_core::atan(head(x.mid));
    const SinCos s = sin_cos_series(number(y));
    const V t = a.div(a.sub(a.mul(x, s.cos), s.sin), a.add(s.cos, a.mul(x, s.sin)));
    return a.add(number(y), atan_series(t));
  }

  // 2/sqrt(pi) e^(-x^2) sum of 2^n x^(2n+1)/(2n+1)!!, all positive; past ratio 1/2 the tail is
  // below its first term doubled.
  V erf_series(const B& x) {
    const V v{x, {}}, square = a.mul(v, v), twice = scaled(square, 1);
    V term = v, sum = v;
    for (int n = 1;; ++n) {
      term = a.div(a.mul(term, twice), a.integer(2 * n + 1));
      sum = a.add(sum, term);
      const bool halving = below(a.div(twice, a.integer(2 * n + 3)).mid, -1);
      if (halving &&
          (term.mid.is_zero() || term.mid.top_exponent() < sum.mid.top_exponent() - kBits - 4)) {
        sum = widened(sum, A::upper(term));
        break;
      }
    }
    const V scale = a.div(exp_of(a.neg(square)), a.sqrt(pi()));
    return a.mul(scaled(sum, 1), scale);
  }
  V exp_of(const V& x) {  // radius below 1/2
    V y = exp(x.mid);
    return widened(y, (A::upper(y) * x.rad).times_power_of_two(1));
  }
  V erf(const B& x) {
    const double m = head(magnitude(x));
    if (m * m > kBits)
      return just_below(x.negative ? -1 : 1);  // erfc < e^(-x^2) < 2^-(1.44 * 64 L)
    return erf_series(x);
  }
  V erfc(const B& x) {
    const double m = head(x);
    if (m > 27.9)
      return tiny();  // erfc(27.9) < 2^-1126, below half of every format's smallest value
    if (m < 0 && m * m > kBits) return just_below(2);
    if (m < 0.5) return a.sub(number(1), erf(x));
    constexpr int W = L + 18;  // 1 - erf cancels up to 1127 bits
    RealBig<W> wide;
    BigSeries<W> f{wide};
    bool inexact = false;
    const auto r = wide.sub(f.number(1), f.erf_series(Big<W>::of(x, inexact)));
    bool cut = false;
    const B mid = B::of(r.mid, cut);
    return {mid, r.rad + A::last_place(mid, cut)};
  }

  V cbrt(const B& x) {
    // From f64, y <- y - (y^3 - x)/(3 y^2), each step twice the digits; then the error is bounded
    // by the residual: |y - cbrt(x)| <= |y^3 - x| / (2 y^2) for y within 10 % of it.
    std::int64_t e = x.top_exponent();
    e -= ((e % 3) + 3) % 3;
    const V t{magnitude(x.times_power_of_two(-e)), {}};
    V y = number(f64_core::cbrt(head(t.mid)));
    // An exact root has at most 18 significant bits when x is a double: f64 rounded to f32 finds
    // it.
    const V guess = number(static_cast<double>(static_cast<float>(head(y.mid))));
    const V cube = a.mul(a.mul(guess, guess), guess);
    V r;
    if (cube.exact() && B::compare(cube.mid, t.mid) == 0) {
      r = guess;
    } else {
      V residual = t;
      for (int bits = 48; bits < 4 * kBits; bits *= 2) {
        y.rad = {};
        const V square = a.mul(y, y);
        residual = a.sub(a.mul(square, y), t);
        y = a.sub(y, a.div(residual, a.mul(number(3), square)));
      }
      y.rad = {};
      residual = a.sub(a.mul(a.mul(y, y), y), t);
      r = {y.mid, A::upper(residual) / Bound::below(y.mid) / Bound::below(y.mid)};
    }
    return with_sign_of(scaled(r, e / 3), x.negative);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
