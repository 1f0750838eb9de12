#include "tests/prove/taylor.h"

#include <array>
#include <cmath>

#include "engine/ops/activation.h"

namespace etalon {
namespace {

using V = RealF64::V;
constexpr int kTerms = 5;

// c[0] + c[1] t + ... + c[4] t^4: the first coefficients of a function of x at x = centre + t.
struct Jet {
  std::array<V, kTerms> c{};
};

struct Jets {
  RealF64 a;

  // RealF64 refuses divisors that are no better known than to 2^-20; a run's ball is wider.
  V quotient(const V& x, const V& z) {
    const double q = x.mid / z.mid, room = std::fabs(z.mid) - z.rad;
    if (!(room > std::fabs(z.mid) * 0.5) || !std::isfinite(q)) return a.undecide();
    return RealF64::with_error(
        q, ((x.rad + std::fabs(q) * z.rad) / (room * (1 - 0x1p-50)) + std::fabs(q) * RealF64::kU) *
               RealF64::kUp);
  }
  Jet variable(const V& x) { return {{x, V{1, 0}}}; }
  V number(double v, double error = 0) const { return {v, error}; }
  Jet scaled(const Jet& x, const V& s) {
    Jet y;
    for (int k = 0; k < kTerms; ++k) y.c[at(k)] = a.mul(x.c[at(k)], s);
    return y;
  }
  Jet plus(const Jet& x, const V& s) {
    Jet y = x;
    y.c[0] = a.add(y.c[0], s);
    return y;
  }
  Jet sum(const Jet& x, const Jet& z) {
    Jet y;
    for (int k = 0; k < kTerms; ++k) y.c[at(k)] = a.add(x.c[at(k)], z.c[at(k)]);
    return y;
  }
  Jet minus(const Jet& x) { return scaled(x, V{-1, 0}); }
  Jet product(const Jet& x, const Jet& z) {
    Jet y;
    for (int k = 0; k < kTerms; ++k)
      for (int i = 0; i <= k; ++i)
        y.c[at(k)] = a.add(y.c[at(k)], a.mul(x.c[at(i)], z.c[at(k - i)]));
    return y;
  }
  Jet quotient(const Jet& x, const Jet& z) {
    Jet y;
    for (int k = 0; k < kTerms; ++k) {
      V s = x.c[at(k)];
      for (int i = 0; i < k; ++i) s = a.sub(s, a.mul(y.c[at(i)], z.c[at(k - i)]));
      y.c[at(k)] = quotient(s, z.c[0]);
    }
    return y;
  }
  Jet one_over(const Jet& x) { return quotient(Jet{{V{1, 0}}}, x); }
  Jet sqrt(const Jet& x) {
    Jet y;
    y.c[0] = a.sqrt(x.c[0]);
    const V twice = a.mul(y.c[0], V{2, 0});
    for (int k = 1; k < kTerms; ++k) {
      V s = x.c[at(k)];
      for (int i = 1; i < k; ++i) s = a.sub(s, a.mul(y.c[at(i)], y.c[at(k - i)]));
      y.c[at(k)] = quotient(s, twice);
    }
    return y;
  }
  // y' = x' y.
  Jet exp(const Jet& x) {
    Jet y;
    y.c[0] = a.call(Function::exp, x.c[0]);
    for (int k = 1; k < kTerms; ++k) {
      V s;
      for (int j = 1; j <= k; ++j)
        s = a.add(s, a.mul(a.mul(V{static_cast<double>(j), 0}, x.c[at(j)]), y.c[at(k - j)]));
      y.c[at(k)] = quotient(s, V{static_cast<double>(k), 0});
    }
    return y;
  }
  // The function whose derivative is d; its value, first, is not asked for where it is left out.
  Jet integral(const Jet& d, const V& first = {}) {
    Jet y;
    y.c[0] = first;
    for (int k = 1; k < kTerms; ++k)
      y.c[at(k)] = quotient(d.c[at(k - 1)], V{static_cast<double>(k), 0});
    return y;
  }
  // sin and cos of x itself: s, c, -s/2, -c/6, s/24.
  Jet sine(const V& x, bool cosine) {
    const V s = a.call(Function::sin, x), c = a.call(Function::cos, x);
    const std::array<V, 4> turn{s, c, a.neg(s), a.neg(c)};
    constexpr double kFactorial[] = {1, 1, 2, 6, 24};
    Jet y;
    for (int k = 0; k < kTerms; ++k)
      y.c[at(k)] = quotient(turn[at((k + (cosine ? 1 : 0)) % 4)], V{kFactorial[k], 0});
    return y;
  }

  static std::size_t at(int k) { return static_cast<std::size_t>(k); }
};

// Constants within half a unit of their last place.
constexpr V kLn2{0x1.62e42fefa39efp-1, 0x1p-54}, kLn10{0x1.26bb1bbb55516p+1, 0x1p-52},
    kTwoOverSqrtPi{0x1.20dd750429b6dp+0, 0x1p-53}, kSqrtHalf{0x1.6a09e667f3bcdp-1, 0x1p-54},
    kTwoSqrtTwoOverPi{0x1.9884533d43651p+0, 0x1p-53};

// f's coefficients from the first on, over x. c[0] means nothing.
bool coefficients(Jets& j, const SurveyedFunction& f, const V& at, Jet& y) {
  using L = LaneFunction;
  RealF64& a = j.a;
  const Jet x = j.variable(at);
  const V one{1, 0}, two{2, 0}, half{0.5, 0};
  const bool negative = at.mid < 0;
  // e^x, or e^-x, and 1 + it.
  const auto e = [&](bool minus) { return j.exp(minus ? j.minus(x) : x); };
  // 1/(1 + e^-x), without cancelling.
  const auto sigmoid = [&] { return j.one_over(j.plus(e(true), one)); };
  switch (f.lane) {
    case L::exp:
    case L::expm1:
      y = e(false);
      return true;
    case L::elu:
    case L::celu:
      y = e(false);
      return negative;
    case L::selu: {
      const SeluParams p;
      y = j.scaled(e(false), V{static_cast<double>(p.gamma) * static_cast<double>(p.alpha), 0});
      return negative;
    }
    case L::exp2:
      y = j.exp(j.scaled(x, kLn2));
      return true;
    case L::log:
      y = j.integral(j.one_over(x));
      return true;
    case L::log2:
      y = j.integral(j.one_over(j.scaled(x, kLn2)));
      return true;
    case L::log10:
      y = j.integral(j.one_over(j.scaled(x, kLn10)));
      return true;
    case L::log1p:
      y = j.integral(j.one_over(j.plus(x, one)));
      return true;
    case L::rsqrt:
      y = j.one_over(j.sqrt(x));
      return true;
    case L::reciprocal:
      y = j.one_over(x);
      return true;
    case L::sin:
    case L::cos:
      y = j.sine(at, f.lane == L::cos);
      return true;
    case L::tan:
      y = j.quotient(j.sine(at, false), j.sine(at, true));
      return true;
    case L::asin:
    case L::acos: {
      const Jet d = j.one_over(j.sqrt(j.product(j.plus(j.minus(x), one), j.plus(x, one))));
      y = j.integral(f.lane == L::asin ? d : j.minus(d));
      return true;
    }
    case L::atan:
      y = j.integral(j.one_over(j.plus(j.product(x, x), one)));
      return true;
    case L::sinh:
    case L::cosh:
      y = j.scaled(j.sum(e(false), f.lane == L::cosh ? e(true) : j.minus(e(true))), half);
      return true;
    case L::tanh: {  // 1 - 2/(e^2x + 1)
      const Jet d = j.one_over(j.plus(j.exp(j.scaled(x, two)), one));
      y = j.minus(j.scaled(d, two));
      return true;
    }
    case L::asinh:
      y = j.integral(j.one_over(j.sqrt(j.plus(j.product(x, x), one))));
      return true;
    case L::acosh:
      y = j.integral(j.one_over(j.sqrt(j.product(j.plus(x, V{-1, 0}), j.plus(x, one)))));
      return true;
    case L::atanh:
      y = j.integral(j.one_over(j.product(j.plus(j.minus(x), one), j.plus(x, one))));
      return true;
    case L::erf:
    case L::erfc: {
      const Jet d = j.scaled(j.exp(j.minus(j.product(x, x))), kTwoOverSqrtPi);
      y = j.integral(f.lane == L::erf ? d : j.minus(d));
      return true;
    }
    case L::sigmoid:
      y = sigmoid();
      return true;
    case L::softplus:
      y = j.integral(sigmoid());
      return true;
    case L::log_sigmoid:
      y = j.integral(j.one_over(j.plus(e(false), one)));
      return true;
    case L::silu:
      y = j.product(x, sigmoid());
      return true;
    case L::gelu: {
      const Jet z = j.scaled(x, a.neg(kSqrtHalf));
      const Jet d = j.scaled(j.product(j.exp(j.minus(j.product(z, z))), Jet{{a.neg(kSqrtHalf)}}),
                             a.neg(kTwoOverSqrtPi));
      y = j.scaled(j.product(x, j.integral(d, a.call(Function::erfc, z.c[0]))), half);
      return true;
    }
    case L::gelu_tanh: {  // x sigmoid(2 sqrt(2/pi) (x + 0.044715 x^3))
      const V c = a.div(V{44715, 0}, V{1000000, 0});
      const Jet z =
          j.scaled(j.product(x, j.plus(j.scaled(j.product(x, x), c), one)), kTwoSqrtTwoOverPi);
      y = j.product(x, j.one_over(j.plus(j.exp(j.minus(z)), one)));
      return true;
    }
    case L::mish: {  // x n/(n + 2), n = e^x (e^x + 2)
      const Jet n = j.product(e(false), j.plus(e(false), two));
      y = j.product(x, j.quotient(n, j.plus(n, two)));
      return true;
    }
    case L::softsign:
      y = j.quotient(x, j.plus(negative ? j.minus(x) : x, one));
      return true;
    default:
      return false;
  }
}

}  // namespace

bool expand(const SurveyedFunction& f, double centre, double r, Taylor& p) {
  const bool turns =
      f.lane == LaneFunction::sin || f.lane == LaneFunction::cos || f.lane == LaneFunction::tan;
  if (turns && r > 0x1p-8) return false;
  bool undecided = false;
  const V value = f.ball(centre, undecided);
  if (undecided || !std::isfinite(value.mid)) return false;
  Jets point, run;
  Jet c, d;
  if (!coefficients(point, f, {centre, 0}, c) || !coefficients(run, f, {centre, r}, d) ||
      point.a.undecided || run.a.undecided)
    return false;
  p = {.centre = centre, .a0 = value.mid, .a1 = c.c[1].mid, .a2 = c.c[2].mid, .a3 = c.c[3].mid};
  const double r2 = r * r, first = std::fabs(p.a1) * r, second = std::fabs(p.a2) * r2,
               third = std::fabs(p.a3) * r2 * r;
  // Horner: t is exact, each of three products and sums rounds once; what a step rounds is at most
  // the sum of the sizes. The ends of the interval, p -+ error, are two roundings more.
  const double rounding = (std::fabs(p.a0) + first + second + third) * 0x1p-50;
  p.error = (value.rad + c.c[1].rad * r + c.c[2].rad * r2 + c.c[3].rad * r2 * r +
             (std::fabs(d.c[4].mid) + d.c[4].rad) * r2 * r2 + rounding) *
            (1 + 0x1p-40);
  // A wider interval costs little, and it shows the values next to a midpoint.
  p.error = std::fmax(p.error, std::fabs(p.a0) * 0x1p-44);
  return p.error < std::fabs(p.a0) * 0x1p-38;
}

}  // namespace etalon
