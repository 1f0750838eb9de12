// The formulas of lanes.h, lane by lane, their rounding test, and arrays of them.
#pragma once

#include <array>
#include <utility>

#include "kernels/activation/lanes_circular_inl.h"
#include "kernels/activation/lanes_erf_inl.h"
#include "kernels/activation/lanes_exp_inl.h"
#include "kernels/activation/lanes_float_inl.h"
#include "kernels/activation/lanes_log_inl.h"
#include "kernels/activation/lanes_pair_inl.h"

namespace etalon {

template <class D>
struct LaneMath : LaneBase<D> {
  using Base = LaneBase<D>;
  using Exp = LaneExp<D>;
  using Log = LaneLog<D>;
  using Circular = LaneCircular<D>;
  using Erf = LaneErf<D>;
  using R = typename D::Reg;
  using Base::c, Base::clamp, Base::clamp_input, Base::refuse, Base::finite_only, Base::above;

  // Relative errors; what is derived beside the formulas is below three quarters of them. What
  // takes e^x with 2^-38.49 and a quotient has 1.25 * 2^-38.
  static constexpr double error_of(LaneFunction f) {
    using L = LaneFunction;
    switch (f) {
      case L::exp:
      case L::exp2:
      case L::cosh:
      case L::sigmoid:
      case L::log_sigmoid:
      case L::softplus:
      case L::silu:
      case L::gelu_tanh:
      case L::mish:
        return 0x1.4p-38;
      case L::erf:
      case L::erfc:
      case L::gelu:
        return 0x1p-37;
      default:
        return 0x1p-39;
    }
  }
  template <LaneFunction F>
  ETALON_INLINE static R evaluate(R x, const LaneParams& p) {
    using L = LaneFunction;
    if constexpr (F == L::exp) return Exp::exp(clamp_input(x, -200, 200));
    if constexpr (F == L::exp2) return Exp::exp2(clamp_input(x, -200, 200));
    if constexpr (F == L::expm1) {
      const R held = clamp_input(x, -200, 200);
      return D::copy_sign(Exp::expm1(held), held);
    }
    // Zero, infinity and NaN are refused; negative numbers give NaN.
    if constexpr (F == L::log) return above(x, 0, 0, Log::log(x));
    if constexpr (F == L::log2) return above(x, 0, 0, Log::log2(x));
    if constexpr (F == L::log10) return above(x, 0, 0, Log::log10(x));
    if constexpr (F == L::log1p) return above(x, -1, -1, Log::log1p(x));
    if constexpr (F == L::rsqrt) return above(x, 0, 0, D::div(c(1), D::sqrt(x)));
    if constexpr (F == L::cbrt) return finite_only(x, Log::cbrt(x));
    if constexpr (F == L::sin) return Circular::template sine<0>(x);
    if constexpr (F == L::cos) return Circular::template sine<1>(x);
    if constexpr (F == L::tan) return Circular::tan(x);
    if constexpr (F == L::asin) return Circular::asin(x);
    if constexpr (F == L::acos) return Circular::acos(x);
    if constexpr (F == L::atan) return Circular::atan(x);
    if constexpr (F == L::sinh) return Exp::sinh(x);
    if constexpr (F == L::cosh) return Exp::cosh(x);
    if constexpr (F == L::asinh) return finite_only(x, Log::asinh(x));
    if constexpr (F == L::acosh) return above(x, 0x1.fffffffffffffp-1, 1, Log::acosh(x));
    if constexpr (F == L::atanh) {
      const R size = D::abs(x);
      return D::select(D::less(c(1), size), c(__builtin_nan("")),
                       refuse(D::not_less(size, c(1)), Log::atanh(x)));
    }
    if constexpr (F == L::tanh) return Exp::tanh(x);
    if constexpr (F == L::sigmoid) return Exp::sigmoid(x);
    if constexpr (F == L::softplus)
      return D::select(D::less(c(p.threshold), x), x, Log::softplus(x));
    if constexpr (F == L::log_sigmoid) return D::neg(Log::softplus(D::neg(x)));
    if constexpr (F == L::erf) return Erf::erf(x);
    if constexpr (F == L::erfc) return Erf::erfc(x);
    if constexpr (F == L::silu) return Exp::silu(x);
    if constexpr (F == L::gelu) return Erf::gelu(x);
    if constexpr (F == L::gelu_tanh) return Exp::gelu_tanh(x);
    if constexpr (F == L::mish) return Exp::mish(x);
    if constexpr (F == L::softsign) return finite_only(x, D::div(x, D::add(c(1), D::abs(x))));
    if constexpr (F == L::elu) return Exp::elu(x, p.alpha);
    if constexpr (F == L::selu) return D::mul(c(p.gamma), Exp::elu(x, p.alpha));
    if constexpr (F == L::celu) return Exp::celu(x, p.alpha);
    if constexpr (F == L::hard_sigmoid) {
      // alpha x is exact, the sum rounds once. Which zero an exact 0 is, the definition says.
      const R y = D::fma(c(p.alpha), x, c(p.beta));
      const R held = D::min(c(1), D::max(c(0), y));
      return refuse(D::not_less(c(0), D::abs(y)), held);
    }
    if constexpr (F == L::hard_swish) {  // what pairs of floats leave
      const R y = D::mul(D::mul(x, D::add(x, c(3))), c(1.0 / 6));
      const R high = D::select(D::less(x, c(3)), y, x);
      return finite_only(x, D::select(D::less(c(-3), x), high, c(-0.0)));
    }
  }

  template <LaneFunction F>
  static double values_of(const LaneParams& params, const float* x, double* y, std::int64_t count) {
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R v = evaluate<F>(widened(x + i, n), params);
      if (n == D::lanes)
        D::store(y + i, v);
      else
        D::store(y + i, v, D::first(n));
    });
    return error_of(F);
  }
  static double values(LaneFunction f, const LaneParams& p, const float* x, double* y,
                       std::int64_t n) {
    static constexpr auto kAll = []<int... I>(std::integer_sequence<int, I...>) {
      return std::array{&LaneMath::values_of<static_cast<LaneFunction>(I)>...};
    }(std::make_integer_sequence<int, static_cast<int>(LaneFunction::leaky_relu)>{});
    const auto i = static_cast<std::size_t>(f);
    return i < kAll.size() ? kAll[i](p, x, y, n) : 0;
  }

  // The rounding test, one for all functions: y[i] = v[i] to nearest where v (1 - error) and v (1 +
  // error) round alike (one rounding each, covered by the slack of the bounds), which an infinite v
  // never does; NaN is stored as the canonical one.
  template <class Scalar>
  static std::int64_t round_tested(const double* v, double error, float* y, std::int64_t count,
                                   const Scalar& scalar) {
    std::int64_t refused = 0;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R r = n == D::lanes ? D::load(v + i) : D::load(v + i, D::first(n));
      const auto low = D::narrow(D::fnma(r, c(error), r)), high = D::narrow(D::fma(r, c(error), r));
      // NaN differs from itself.
      std::uint32_t bad = D::narrow_differ(low, high), nan = 0;
      float wanted[D::lanes];
      if (bad != 0) [[unlikely]] {
        nan = D::to_bits(D::unordered(r)) & ((1U << n) - 1U);
        bad &= ((1U << n) - 1U) & ~nan;
        for (std::uint32_t b = bad; b != 0; b &= b - 1) {
          const int lane = __builtin_ctz(b);
          wanted[lane] = scalar(i + lane);
          ++refused;
        }
      }
      if (n == D::lanes)
        D::narrow_store(y + i, high);
      else
        D::narrow_store(y + i, high, n);
      for (std::uint32_t b = bad; b != 0; b &= b - 1) {
        const int lane = __builtin_ctz(b);
        y[i + lane] = wanted[lane];
      }
      for (std::uint32_t b = nan; b != 0; b &= b - 1)
        y[i + __builtin_ctz(b)] = __builtin_bit_cast(float, 0x7fc00000U);
    });
    return refused;
  }

  // Every step, of an error or of an end, may be rounded either way: one operation each, covered by
  // the slack of the bounds. The order of operands lets NaN pass.
  static int ends(const double* v, double error, double limit, float* y, int count,
                  std::uint16_t* open) {
    int found = 0;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R r = n == D::lanes ? D::load(v + i) : D::load(v + i, D::first(n));
      const auto end = [&](R x) ETALON_INLINE_LAMBDA {
        return D::narrow(D::min(c(limit), D::max(c(-limit), x)));
      };
      const auto low = end(D::fnma(r, c(error), r)), high = end(D::fma(r, c(error), r));
      if (n == D::lanes)
        D::narrow_store(y + i, high);
      else
        D::narrow_store(y + i, high, n);
      std::uint32_t bad = D::narrow_differ(low, high) & ((1U << n) - 1U);
      for (; bad != 0; bad &= bad - 1)
        open[found++] = static_cast<std::uint16_t>(i + __builtin_ctz(bad));
    });
    return found;
  }

  static constexpr std::int64_t kBlock = 256;

  // x Phi(x) and x s(alpha x) are x/2 and something positive, below 2^-180 where x is so small that
  // x/2 is subnormal: too little for any ball in f64 to tell from the midpoint of two floats that
  // x/2 is for every odd x. It decides upward. By the definition that takes microseconds for each
  // of eight million inputs. (The bits of such x count in steps of 2^-149, subnormal or not.)
  static bool half_and_more(LaneFunction f, const LaneParams& p, float x) {
    return __builtin_fabsf(x) < 0x1p-125F &&
           (f == LaneFunction::gelu || f == LaneFunction::gelu_tanh ||
            (f == LaneFunction::silu && p.alpha > 0 && p.alpha < 0x1p64));
  }
  static float half_upward(float x) {
    const auto bits = __builtin_bit_cast(std::uint32_t, x);
    const std::uint32_t sign = bits & 0x80000000U, size = bits & 0x7fffffffU;
    return __builtin_bit_cast(float, sign | ((size + (sign == 0 ? 1U : 0U)) >> 1));
  }

  // Values in f64 and their test, an array in blocks; scale 0 leaves the test out.
  static std::int64_t by_doubles(LaneFunction f, const LaneParams& p, const float* x, float* y,
                                 std::int64_t count, const LaneFallback& fallback, double scale) {
    alignas(64) double v[kBlock];
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < count; i += kBlock) {
      const std::int64_t n = count - i < kBlock ? count - i : kBlock;
      const double error = values(f, p, x + i, v, n);
      refused += round_tested(v, error * scale, y + i, n, [&](std::int64_t at) {
        const float one = x[i + at];
        return half_and_more(f, p, one) ? half_upward(one) : fallback.scalar(fallback.context, one);
      });
    }
    return refused;
  }
  static constexpr bool kPairs = requires { typename D::FloatPairs; };
  static std::int64_t run(LaneFunction f, const LaneParams& p, const float* x, float* y,
                          std::int64_t count, const LaneFallback& fallback, double scale) {
    using F = typename D::Floats;
    switch (f) {
      case LaneFunction::leaky_relu: {
        const auto slope = F::set1(static_cast<float>(p.alpha));
        LaneFloat<D>::each(x, y, count,
                           [&](auto v) ETALON_INLINE_LAMBDA { return D::leaky_relu(v, slope); });
        return 0;
      }
      case LaneFunction::sqrt:
        LaneFloat<D>::each(x, y, count, [](auto v) ETALON_INLINE_LAMBDA { return D::sqrt(v); });
        return 0;
      case LaneFunction::reciprocal: {
        const auto one = F::set1(1);
        LaneFloat<D>::each(
            x, y, count, [&](auto v) ETALON_INLINE_LAMBDA { return F::canonical(F::div(one, v)); });
        return 0;
      }
      case LaneFunction::hard_sigmoid: {
        // Of f32 parameters one fma is the rounded value. A sum of zeros has a sign that the
        // definition knows: not here.
        const auto alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
        if (static_cast<double>(alpha) != p.alpha || static_cast<double>(beta) != p.beta ||
            beta == 0)
          break;
        const auto a = F::set1(alpha), b = F::set1(beta);
        LaneFloat<D>::each(x, y, count,
                           [&](auto v) ETALON_INLINE_LAMBDA { return D::unit(F::fma(a, v, b)); });
        return 0;
      }
      case LaneFunction::hard_tanh: {
        const auto low = F::set1(static_cast<float>(p.low));
        const auto high = F::set1(static_cast<float>(p.high));
        LaneFloat<D>::each(x, y, count,
                           [&](auto v) ETALON_INLINE_LAMBDA { return D::hard_tanh(v, low, high); });
        return 0;
      }
      default:
        break;
    }
    if constexpr (kPairs) {
      using Pairs = LanePair<typename D::FloatPairs>;
      // One vector of doubles is done before the pairs' list is.
      if (scale != 0 && count > D::lanes && Pairs::takes(f, p))
        return Pairs::run(f, x, y, count, [&](const float* open, float* result, std::int64_t n) {
          return by_doubles(f, p, open, result, n, fallback, scale);
        });
    }
    return by_doubles(f, p, x, y, count, fallback, scale);
  }

  // e^(y log x), x > 0: the error of y log x, below 30 u, counts |y log x| <= 104 times: 2^-41.3. A
  // square is exact; the 3/4 of LRN is sqrt(x) sqrt(sqrt(x)), off by 3.5 u.
  static double pow_values(const float* x, const float* y, bool y_varies, double* v,
                           std::int64_t count) {
    const auto powers = [&](auto power) ETALON_INLINE_LAMBDA {
      each(count, [&](std::int64_t k, int n) ETALON_INLINE_LAMBDA {
        const R r = power(widened(x + k, n), k, n);
        if (n == D::lanes)
          D::store(v + k, r);
        else
          D::store(v + k, r, D::first(n));
      });
    };
    const auto above_zero = [](R base, R r) ETALON_INLINE_LAMBDA {
      return refuse(D::not_inside(base, c(0), c(0x1p128)), r);
    };
    if (!y_varies && *y == 2) {
      powers([](R base, std::int64_t, int) ETALON_INLINE_LAMBDA { return D::mul(base, base); });
      return 0;
    }
    if (!y_varies && *y == 0.75F) {
      powers([&](R base, std::int64_t, int) ETALON_INLINE_LAMBDA {
        const R root = D::sqrt(base);
        return above_zero(base, D::mul(root, D::sqrt(root)));
      });
      return 0x1p-50;
    }
    powers([&](R base, std::int64_t k, int n) ETALON_INLINE_LAMBDA {
      const R exponent = y_varies ? widened(y + k, n) : c(static_cast<double>(*y));
      const R z = D::mul(exponent, Log::template log<true>(base));
      return finite_only(exponent, above_zero(base, Exp::exp_fine(clamp(z, -200, 200))));
    });
    return 0x1p-40;
  }
  static std::int64_t run_pow(const float* x, const float* y, bool y_varies, float* out,
                              std::int64_t count, const PowFallback& fallback) {
    using F = typename D::Floats;
    if (!y_varies && *y == 2) {
      LaneFloat<D>::each(x, out, count,
                         [](auto v) ETALON_INLINE_LAMBDA { return F::canonical(F::mul(v, v)); });
      return 0;
    }
    alignas(64) double v[kBlock];
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < count; i += kBlock) {
      const std::int64_t block = count - i < kBlock ? count - i : kBlock;
      const double error = pow_values(x + i, y_varies ? y + i : y, y_varies, v, block);
      refused += round_tested(v, error, out + i, block, [&](std::int64_t at) {
        return fallback.scalar(x[i + at], y_varies ? y[i + at] : *y);
      });
    }
    return refused;
  }

  // Calls f(i, n) for whole vectors, then for the tail.
  template <class F>
  ETALON_INLINE static void each(std::int64_t count, F f) {
    std::int64_t i = 0;
    for (; i + D::lanes <= count; i += D::lanes) f(i, D::lanes);
    if (i < count) f(i, static_cast<int>(count - i));
  }
  ETALON_INLINE static R widened(const float* x, int n) {
    return n == D::lanes ? D::widen(x) : D::widen(x, D::first(n));
  }
};

}  // namespace etalon
