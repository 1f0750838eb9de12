// Elementary functions over balls of 64 L bits, the last steps of the ladder: each function from
// its series (real_big_series_inl.h), its slope where the argument is a ball, and powers.
#include "engine/numerics/elementary/real_big_series_inl.h"
#include "engine/numerics/elementary/special.h"
#include "engine/numerics/function.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {
namespace {

template <int L>
struct Functions : BigSeries<L> {
  using Series = BigSeries<L>;
  using Series::number, Series::pi, Series::ln2, Series::ln10, Series::scaled, Series::widened,
      Series::with_sign_of, Series::huge, Series::tiny, Series::just_below, Series::below,
      Series::head, Series::magnitude, Series::exp, Series::expm1, Series::log, Series::log1p,
      Series::sin_cos, Series::atan, Series::exp_of, Series::erf, Series::erfc, Series::cbrt,
      Series::kBits, Series::a;
  using typename Series::A, typename Series::B, typename Series::V, typename Series::SinCos;

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
  return Functions<L>{{*this}}.call(f, x);
}
template <int L>
typename RealBig<L>::V RealBig<L>::pow(const V& x, const V& y) {
  return Functions<L>{{*this}}.pow(x, y);
}
template RealBig<4>::V RealBig<4>::call(Function, const V&);
template RealBig<10>::V RealBig<10>::call(Function, const V&);
template RealBig<36>::V RealBig<36>::call(Function, const V&);
template RealBig<4>::V RealBig<4>::pow(const V&, const V&);
template RealBig<10>::V RealBig<10>::pow(const V&, const V&);
template RealBig<36>::V RealBig<36>::pow(const V&, const V&);

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
