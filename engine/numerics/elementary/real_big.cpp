// Elementary functions over balls of 64 L bits: the last steps of the ladder.
//
// Every formula runs in ball arithmetic, which carries its rounding errors by itself; what is added
// by hand is the tail of each series, bounded by a geometric one, and the error of an inexact
// argument, |f'| times its radius. Plain series after argument reduction, no attempt at speed.
#include "engine/numerics/elementary/constants.h"
#include "engine/numerics/elementary/f64_core.h"
#include "engine/numerics/elementary/special.h"
#include "engine/numerics/function.h"
#include "engine/numerics/real_big_inl.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {
namespace {

constexpr std::int64_t kHugeExponent = std::int64_t{1} << 41;

template <int L>
struct Functions {
  using A = RealBig<L>;
  using B = Big<L>;
  using V = typename A::V;
  static constexpr int kBits = 64 * L;
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
  bool negligible(const V& term) const {
    return term.mid.is_zero() || term.mid.top_exponent() < -kBits - 16;
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
    Functions<W> f{wide};
    bool inexact = false;
    const Big<W> wx = Big<W>::of(x, inexact);
    const auto half_pi = f.pi();
    const auto quotient =
        wide.div(typename RealBig<W>::V{wx, {}}, Functions<W>::scaled(half_pi, -1));
    // The integer nearest to the quotient; which one, if two are near, does not matter.
    Big<W> q = Big<W>::add(Functions<W>::magnitude(quotient.mid), Big<W>::of(0.5), inexact);
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
                 wide.mul(typename RealBig<W>::V{q, {}}, Functions<W>::scaled(half_pi, -1)));
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
    Functions<W> f{wide};
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

  V at(Function f, const B& x) {
    double d = 0, y = 0;
    const bool plain = x.as_double(d);
    if (plain && special_value(f, d, y)) return number(y);
    const V v{x, {}};
    const V one = number(1);
    switch (f) {
      case Function::exp:
        return exp(x);
      case Function::exp2:
        if (!below(x, 40)) return x.negative ? tiny() : huge();
        if (plain && is_integer(d)) return {B::scaled(false, 1, static_cast<std::int64_t>(d)), {}};
        return exp_of(a.mul(v, ln2()));
      case Function::expm1:
        return expm1(x);
      case Function::log:
        return x.negative ? number(kNan) : log(x);
      case Function::log2:
      case Function::log10:
        if (x.negative) return number(kNan);
        if (plain && exact_logarithm(f, d, y)) return number(y);
        return a.div(log(x), f == Function::log2 ? ln2() : ln10());
      case Function::log1p:
        return log1p(x);
      case Function::sqrt:
        return a.sqrt(v);
      case Function::rsqrt:
        return a.div(one, a.sqrt(v));
      case Function::reciprocal:
        return a.div(one, v);
      case Function::cbrt:
        return cbrt(x);
      case Function::sin:
      case Function::cos:
      case Function::tan: {
        if (!below(x, 1024)) return a.undecide();
        const SinCos s = sin_cos(x);
        return f == Function::sin ? s.sin : f == Function::cos ? s.cos : a.div(s.sin, s.cos);
      }
      case Function::asin:
        if (plain && abs_of(d) == 1) return with_sign_of(scaled(pi(), -1), x.negative);
        return atan(a.div(v, a.sqrt(a.mul(a.sub(one, v), a.add(one, v)))));
      case Function::acos:
        if (plain && d == -1) return pi();
        return scaled(atan(a.sqrt(a.div(a.sub(one, v), a.add(one, v)))), 1);
      case Function::atan:
        if (!x.finite()) return with_sign_of(scaled(pi(), -1), x.negative);
        return atan(v);
      case Function::sinh: {
        if (!below(x, 40)) return with_sign_of(huge(), x.negative);
        const V e = expm1(magnitude(x));
        return with_sign_of(scaled(a.add(e, a.div(e, a.add(e, one))), -1), x.negative);
      }
      case Function::cosh: {
        if (!below(x, 40)) return huge();
        const V e = exp(magnitude(x));
        return scaled(a.add(e, a.div(one, e)), -1);
      }
      case Function::tanh: {
        if (abs_of(head(x)) > kBits) return just_below(x.negative ? -1 : 1);
        const V e = expm1(magnitude(x).times_power_of_two(1));
        return with_sign_of(a.div(e, a.add(e, number(2))), x.negative);
      }
      case Function::asinh: {
        const V m{magnitude(x), {}}, square = a.mul(m, m);
        const V w = a.add(m, a.div(square, a.add(one, a.sqrt(a.add(one, square)))));
        return with_sign_of(call(Function::log1p, w), x.negative);
      }
      case Function::acosh: {
        const V t = a.sub(v, one);
        return call(Function::log1p, a.add(t, a.sqrt(a.mul(t, a.add(v, one)))));
      }
      case Function::atanh:
        return scaled(call(Function::log1p, a.div(scaled(v, 1), a.sub(one, v))), -1);
      case Function::erf:
        return erf(x);
      case Function::erfc:
        return erfc(x);
      case Function::sigmoid: {
        if (head(x) > kBits) return just_below(1);
        const V e = exp(x.negative ? x : -x);
        return a.div(x.negative ? e : one, a.add(one, e));
      }
      case Function::softplus: {
        if (x.negative && !below(x, 40)) return tiny();
        if (head(x) > kBits) {
          bool ignored = false;  // x < softplus(x) < x + 2^-(64 L)
          const B unit = B::scaled(false, 1, x.exponent);
          return {B::add(x, unit, ignored), Bound::power_of_two(x.exponent)};
        }
        const V w = call(Function::log1p, exp(x.negative ? x : -x));
        return x.negative ? w : a.add(v, w);
      }
      case Function::log_sigmoid:
        return a.neg(at(Function::softplus, -x));
    }
    return a.undecide();
  }

  // |f'| over the ball; `none` if the ball is too wide for the bound.
  struct Slope {
    Bound bound;
    bool none = false;
  };
  static Bound inverse(const V& v) { return Bound::power_of_two(0) / A::lower(v); }
  Slope slope(Function f, const V& x, const V& y) {
    const Bound one = Bound::power_of_two(0), size = A::upper(y);
    const auto twice = [](const Bound& b) { return b.times_power_of_two(1); };
    const bool close = x.rad < Bound::power_of_two(-4);
    const bool relatively_close = x.rad.times_power_of_two(8) < A::lower(x);
    const V m{magnitude(x.mid), x.rad};
    switch (f) {
      case Function::exp:
      case Function::exp2:
      case Function::cosh:
      case Function::sigmoid:
        return {twice(size), !close};
      case Function::expm1:
      case Function::sinh:
        return {twice(size + one), !close};
      case Function::softplus:
      case Function::log_sigmoid:
        return {twice(size) < one ? twice(size) : one, !close};
      case Function::log:
      case Function::log2:
      case Function::log10:
        if (!relatively_close) return {{}, true};
        return {twice(inverse(x))};
      case Function::log1p: {
        const V w = a.add(number(1), x);
        if (!(x.rad.times_power_of_two(8) < A::lower(w))) return {{}, true};
        return {twice(inverse(w))};
      }
      case Function::cbrt:
        if (!relatively_close) return {{}, true};
        return {size * inverse(x)};
      case Function::sin:
      case Function::cos:
      case Function::tanh:
      case Function::asinh:
        return {one};
      case Function::atan:
        return {one};
      case Function::erf:
        return {twice(one)};
      case Function::tan: {
        const Bound s = twice(one + size * size);
        return {s, !(s * x.rad < Bound::power_of_two(-12))};
      }
      case Function::asin:
      case Function::acos:
      case Function::atanh: {
        const V room = a.sub(number(1), m);
        if (room.mid.negative || !(x.rad.times_power_of_two(8) < A::lower(room))) return {{}, true};
        return {twice(inverse(room))};  // 1/sqrt(r) <= 1/r for r <= 1
      }
      case Function::acosh: {
        const V room = a.sub(x, number(1));
        if (room.mid.negative || !(x.rad.times_power_of_two(8) < A::lower(room))) return {{}, true};
        return {twice(one + inverse(room))};
      }
      case Function::erfc: {
        if (x.mid.negative) return {twice(one)};
        const Bound high = A::upper(m);
        if (!(x.rad * (high + one) < Bound::power_of_two(-10))) return {{}, true};
        return {twice(size * (twice(high) + twice(one)))};
      }
      case Function::sqrt:
      case Function::rsqrt:
      case Function::reciprocal:
        break;
    }
    return {{}, true};
  }
  V call(Function f, const V& x) {
    if (x.exact()) return at(f, x.mid);
    if (f == Function::sqrt) return a.sqrt(x);
    if (f == Function::rsqrt) return a.div(number(1), a.sqrt(x));
    if (f == Function::reciprocal) return a.div(number(1), x);
    const V y = at(f, x.mid);
    const Slope s = slope(f, x, y);
    if (s.none || !y.mid.finite()) return a.undecide();
    return widened(y, s.bound * x.rad);
  }

  // Rational y = n / 2^s of an exact x: s exact square roots, then n factors; false if a root is
  // not exact or the power too long to be, or lie midway between, values of a format.
  bool exact_pow(const B& x, double y, V& result) {
    const std::uint64_t b = bits_of(abs_of(y));
    std::int64_t q = static_cast<std::int64_t>(b >> 52) - 1075;
    std::uint64_t n = (b & 0x000fffffffffffffU) | std::uint64_t{1} << 52;
    if (b >> 52 == 0) return false;
    const int zeros = __builtin_ctzll(n);
    n >>= zeros;
    q += zeros;
    B root = magnitude(x);
    bool inexact = false;
    for (; q < 0 && !inexact; ++q) root = B::sqrt(root, inexact);
    if (inexact || q > 12 || n > 4096) return false;
    n <<= q;
    int significant = kBits;
    for (int i = 0; i < L; ++i) {
      if (root.limb[static_cast<std::size_t>(i)] != 0) {
        significant -= 64 * i + __builtin_ctzll(root.limb[static_cast<std::size_t>(i)]);
        break;
      }
    }
    if (significant > 1 &&
        static_cast<std::int64_t>(significant) * static_cast<std::int64_t>(n) > 2 * 64)
      return false;
    V p = number(1);
    if (significant == 1) {
      p.mid = B::scaled(false, 1, 0)
                  .times_power_of_two(root.top_exponent() * static_cast<std::int64_t>(n));
    } else {
      for (std::uint64_t i = 0; i < n; ++i) p = a.mul(p, V{root, {}});
    }
    result = y > 0 ? p : a.div(number(1), p);
    return true;
  }
  V pow(const V& x, const V& y) {
    double dx, dy;
    const bool plain_x = x.exact() && x.mid.as_double(dx),
               plain_y = y.exact() && y.mid.as_double(dy);
    if (x.mid.is_nan() || y.mid.is_nan()) {
      double r;
      if (plain_x && plain_y && special_pow(dx, dy, r)) return number(r);
      return number(kNan);
    }
    if (plain_x && plain_y) {
      double r;
      if (special_pow(dx, dy, r)) return number(r);
    }
    if (x.exact() && (x.mid.is_zero() || !x.mid.finite()) && !A::lower(y).is_zero())
      return number(x.mid.is_zero() == y.mid.negative ? kInfinity : 0.0);
    if (!x.mid.finite() || !y.mid.finite() || x.mid.is_zero()) return a.undecide();
    const bool integer_y = plain_y && is_integer(dy);
    if (x.mid.negative && !integer_y) return a.undecide();
    const bool negative = x.mid.negative && is_odd_integer(dy);
    V r;
    if (!(x.exact() && plain_y && exact_pow(x.mid, dy, r)))
      r = call(Function::exp, a.mul(y, call(Function::log, V{magnitude(x.mid), x.rad})));
    return negative ? a.neg(r) : r;
  }
};

}  // namespace

template <int L>
typename RealBig<L>::V RealBig<L>::call(Function f, const V& x) {
  return Functions<L>{*this}.call(f, x);
}
template <int L>
typename RealBig<L>::V RealBig<L>::pow(const V& x, const V& y) {
  return Functions<L>{*this}.pow(x, y);
}
template RealBig<4>::V RealBig<4>::call(Function, const V&);
template RealBig<10>::V RealBig<10>::call(Function, const V&);
template RealBig<36>::V RealBig<36>::call(Function, const V&);
template RealBig<4>::V RealBig<4>::pow(const V&, const V&);
template RealBig<10>::V RealBig<10>::pow(const V&, const V&);
template RealBig<36>::V RealBig<36>::pow(const V&, const V&);

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
