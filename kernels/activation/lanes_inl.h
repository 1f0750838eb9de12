// The formulas of lanes.h over a vector of doubles D (lanes_avx2.h, lanes_avx512.h).
//
// Intermediate bits need not agree between instruction sets, only stay within the error that the
// rounding test allows for; fma is used freely. Errors in units of u = 2^-53, u for each operation
// without a note. Every function but the last group stays below 30 u, and is tested with kPure =
// 2^-46 (128 u); compositions that amplify the error of an argument have their own bound beside
// them.
//
// Clamps: outside them an f32 result no longer depends on x, because it has overflowed, underflowed
// below half the smallest subnormal, or met its limit; the value at the clamp rounds the same. The
// order of operands in max and min lets NaN pass.
#pragma once

#include "kernels/activation/lanes.h"
#include "kernels/activation/polynomials.h"
#include "kernels/simd/unroll.h"

namespace etalon {

template <class D>
struct LaneMath {
  using R = typename D::Reg;
  using M = typename D::Test;

  static constexpr double kPure = 0x1p-46;

  ETALON_INLINE static R c(double x) { return D::set1(x); }
  ETALON_INLINE static R clamp(R x, double low, double high) {
    return D::min(c(high), D::max(c(low), x));
  }
  template <int N>
  ETALON_INLINE static R horner(const double (&p)[N], R x) {
    R r = c(p[N - 1]);
    simd::unroll<N - 1>([&](auto i) ETALON_INLINE_LAMBDA { r = D::fma(r, x, c(p[N - 2 - i])); });
    return r;
  }
  // Even and odd powers apart: half the latency of a long Horner chain.
  template <int N>
  ETALON_INLINE static R even_odd(const double (&p)[N], R x) {
    const R xx = D::mul(x, x);
    R a = c(p[N - 1]), b = c(p[N - 2]);
    simd::unroll<N / 2 - 1>([&](auto i) ETALON_INLINE_LAMBDA {
      a = D::fma(a, xx, c(p[N - 3 - 2 * i]));
      b = D::fma(b, xx, c(p[N - 4 - 2 * i]));
    });
    if constexpr (N % 2 == 0) return D::fma(a, x, b);
    a = D::fma(a, xx, c(p[0]));
    return D::fma(b, x, a);
  }

  // |x| <= 700: x = k ln2 + r; e^r - 1 = r + r^2 q(r) with 1.2 u of its value (q is at most r/5 of
  // it), and 2^k. The reduction errs by |k| 2^-85 and u of r.
  struct Exp {
    R p, scale;
  };
  ETALON_INLINE static Exp exp_parts(R x) {
    const R magic = c(0x1.8p52 + 1023);
    const R shifted = D::fma(x, c(0x1.71547652b82fep0), magic);
    const R k = D::sub(shifted, magic);
    R r = D::fma(k, c(-0x1.62e42fefa0000p-1), x);  // ln2 on the grid 2^-41: exact
    r = D::fma(k, c(-0x1.cf79abc9e3b3ap-40), r);
    const R q = even_odd(polynomials::kExpm1, r);
    return {D::fma(D::mul(r, r), q, r),
            D::from_bits64(D::template shift_left<52>(D::bits64(shifted)))};
  }
  ETALON_INLINE static R exp(R x) {
    const Exp e = exp_parts(x);
    return D::fma(e.scale, e.p, e.scale);
  }
  // 2^k p + (2^k - 1): exact second part; for k <= -1 and k >= 1 at most 2.4 times the errors. The
  // sums lose the sign of -0, which is put back.
  ETALON_INLINE static R expm1(R x) {
    const Exp e = exp_parts(x);
    return D::copy_sign(D::abs(D::fma(e.scale, e.p, D::sub(e.scale, c(1)))), x);
  }
  // log((1+s)/(1-s))
  template <int N>
  ETALON_INLINE static R log_of_ratio(const double (&p)[N], R s) {
    const R ss = D::mul(s, s);
    return D::fma(D::mul(s, ss), horner(p, ss), D::add(s, s));
  }
  // x > 0 normal: 2^k m, m in [0.707, 1.414), s = (m - 1)/(m + 1) (m - 1 exact): 4 u, and where k
  // is not 0 the sum with k ln2 does not cancel below 0.34.
  ETALON_INLINE static R log(R x) {
    const auto b = D::bits64(x);
    const auto biased = D::template shift_right<52>(D::add64(
        b, D::set64(static_cast<std::int64_t>((std::uint64_t{1024} << 52) - 0x3fe6a09e00000000U))));
    const R k =
        D::sub(D::from_bits64(D::or64(biased, D::set64(0x4330000000000000))), c(0x1p52 + 1024));
    const R m =
        D::from_bits64(D::add64(D::sub64(b, D::template shift_left<52>(biased)),
                                D::set64(static_cast<std::int64_t>(std::uint64_t{1024} << 52))));
    const R s = D::div(D::sub(m, c(1)), D::add(m, c(1)));
    const R p = log_of_ratio(polynomials::kLog, s);
    return D::fma(k, c(0x1.62e42fefa0000p-1), D::fma(k, c(0x1.cf79abc9e3b3ap-40), p));
  }
  // log(1 + e), 0 <= e <= 1.
  ETALON_INLINE static R log1p_unit(R e) {
    return log_of_ratio(polynomials::kLog1p, D::div(e, D::add(e, c(2))));
  }
  // e^-a for a >= 0, and max(x, 0) + log1p(e^-|x|).
  ETALON_INLINE static R softplus(R x) {
    const R e = exp(D::max(c(-200), D::neg(D::abs(x))));
    return D::add(D::max(c(0), x), log1p_unit(e));
  }
  ETALON_INLINE static R tanh(R x) {
    const R e = expm1(D::min(c(40), D::abs(D::add(x, x))));
    return D::copy_sign(D::div(e, D::add(e, c(2))), x);
  }
  // e^x/(1 + e^x) loses nothing on the left; on the right it is as good: e^x = 2^288 at most.
  ETALON_INLINE static R sigmoid(R x) {
    const R e = exp(clamp(x, -200, 200));
    return D::div(e, D::add(e, c(1)));
  }
  // erfc(a), 0 <= a <= 10.4: e^(-a^2) erfcx(a). a^2 is split by fma. erfcx: its argument's 5 u
  // times 1.5, 18.4 * 2 u for the evaluation (terms of both signs): 45 u; all: below 52 u.
  ETALON_INLINE static R erfc_positive(R a) {
    using namespace polynomials;
    const R square = D::mul(a, a), low = D::fma(a, a, D::neg(square));
    const R u = D::sub(c(kErfcxOffset), D::div(c(kErfcxScale), D::add(a, c(kErfcxShift))));
    const R g = even_odd(kErfcx, u);
    return D::mul(exp(D::neg(square)), D::fma(D::neg(low), g, g));
  }
  ETALON_INLINE static R erf(R x) {
    const R a = D::min(c(6), D::abs(x));
    const R small = D::mul(a, horner(polynomials::kErf, D::mul(a, a)));
    const R large = D::sub(c(1), erfc_positive(a));  // erfc <= 0.48: its error counts 0.93
    return D::copy_sign(D::select(D::less(a, c(0.5)), small, large), x);
  }
  ETALON_INLINE static R erfc(R x) {
    const R y = erfc_positive(D::min(c(10.4), D::abs(x)));
    return D::select(D::less(x, c(0)), D::sub(c(2), y), y);
  }

  struct Value {
    R y;
    double error;  // relative, of every lane that is not refused
    M refused;
  };
  ETALON_INLINE static M not_finite(R x) { return D::not_less(D::abs(x), c(0x1p128)); }

  template <LaneFunction F>
  ETALON_INLINE static Value evaluate(R x, const LaneParams& p) {
    const M none = D::none();
    if constexpr (F == LaneFunction::exp) return {exp(clamp(x, -200, 200)), kPure, none};
    if constexpr (F == LaneFunction::expm1) return {expm1(clamp(x, -200, 200)), kPure, none};
    // Zero, negative numbers, infinity and NaN are refused.
    if constexpr (F == LaneFunction::log)
      return {log(x), kPure, D::not_inside(x, c(0), c(0x1p128))};
    if constexpr (F == LaneFunction::tanh) return {tanh(x), kPure, none};
    if constexpr (F == LaneFunction::sigmoid) return {sigmoid(x), kPure, none};
    if constexpr (F == LaneFunction::softplus) return {softplus(x), kPure, none};
    if constexpr (F == LaneFunction::log_sigmoid) return {D::neg(softplus(D::neg(x))), kPure, none};
    if constexpr (F == LaneFunction::erf) return {erf(x), kPure, none};
    if constexpr (F == LaneFunction::erfc) return {erfc(x), kPure, none};
    if constexpr (F == LaneFunction::silu) {
      // x e/(1 + e); below -200 the value rounds to -0, as it does there.
      const R v = D::max(c(-200), x);
      return {D::mul(v, sigmoid(v)), kPure, not_finite(x)};
    }
    if constexpr (F == LaneFunction::gelu) {
      // The argument z = |x|/sqrt(2) errs by 2 u, erfc by 2 z^2 + 1.5 times that: 220 * 2 u; and 52
      // u: below 2^-43.8. At the clamp, z = 10.32, |x| erfc(z)/2 < 2^-151.
      const R v = D::max(c(-14.6), x);
      const R z = D::mul(D::abs(v), c(0x1.6a09e667f3bcdp-1));
      const R y = erfc_positive(D::min(c(10.4), z));
      const R factor = D::select(D::less(v, c(0)), y, D::sub(c(2), y));
      return {D::mul(D::mul(v, c(0.5)), factor), 0x1p-43, not_finite(x)};
    }
    if constexpr (F == LaneFunction::gelu_tanh) {
      // z errs by 5 u, its exponential by |z| times that, |z| <= 110 while the result is not 0: 550
      // u. At the clamp z < -200.
      const R v = D::max(c(-14.6), x);
      const R small = D::min(c(20), v);
      const R cube = D::mul(D::mul(small, small), small);
      const R z = D::mul(c(0x1.9884533d43651p0), D::fma(c(0.044715), cube, small));
      return {D::mul(v, sigmoid(z)), 0x1p-42, not_finite(x)};
    }
    if constexpr (F == LaneFunction::mish) {
      const R v = D::max(c(-200), x);
      const R e = exp(D::min(c(200), v));
      const R t = D::mul(e, D::add(e, c(2)));
      return {D::mul(v, D::div(t, D::add(t, c(2)))), kPure, not_finite(x)};
    }
    if constexpr (F == LaneFunction::softsign)
      return {D::div(x, D::add(c(1), D::abs(x))), kPure, not_finite(x)};
    // elu, selu: products with alpha and gamma, one or two roundings more.
    R y = D::mul(c(p.alpha), expm1(clamp(x, -200, 0)));
    y = D::select(D::less(c(0), x), x, y);
    if constexpr (F == LaneFunction::selu) y = D::mul(c(p.gamma), y);
    return {y, kPure, not_finite(x)};
  }

  template <LaneFunction F, bool kTestRounding>
  static std::int64_t run(const LaneParams& params, const float* x, float* y, std::int64_t count,
                          const LaneFallback& fallback) {
    std::int64_t refused = 0;
    for (std::int64_t i = 0; i < count; i += D::lanes) {
      const int n = count - i < D::lanes ? static_cast<int>(count - i) : D::lanes;
      const R v = n == D::lanes ? D::widen(x + i) : D::widen(x + i, D::first(n));
      const Value r = evaluate<F>(v, params);
      // y +- error y: one rounding each, covered by the slack of the bounds.
      const R d = D::mul(r.y, c(kTestRounding ? r.error : 0.0));
      const auto low = D::narrow(D::sub(r.y, d)), high = D::narrow(D::add(r.y, d));
      std::uint32_t bad = D::narrow_differ(low, high) | D::to_bits(r.refused);
      float wanted[D::lanes];
      if (bad != 0) [[unlikely]] {
        bad &= (1U << n) - 1U;
        for (std::uint32_t b = bad; b != 0; b &= b - 1) {
          const int lane = __builtin_ctz(b);
          wanted[lane] = fallback.scalar(fallback.context, x[i + lane]);
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
    }
    return refused;
  }

  // One f32 operation at most: nothing to test. F is the vector of floats of the same set.
  template <class F>
  static void run_leaky_relu(float slope, const float* x, float* y, std::int64_t count) {
    const auto s = F::set1(slope);
    for (std::int64_t i = 0; i < count; i += F::lanes) {
      if (count - i >= F::lanes) {
        F::store(y + i, D::leaky_relu(F::load(x + i), s));
      } else {
        const auto m = F::first(static_cast<int>(count - i));
        F::store(y + i, D::leaky_relu(F::load(x + i, m), s), m);
      }
    }
  }

  template <bool kTestRounding>
  static std::int64_t run(LaneFunction f, const LaneParams& p, const float* x, float* y,
                          std::int64_t n, const LaneFallback& s) {
    using F = LaneFunction;
    switch (f) {
      case F::leaky_relu:
        run_leaky_relu<typename D::Floats>(static_cast<float>(p.alpha), x, y, n);
        return 0;
      case F::exp:
        return run<F::exp, kTestRounding>(p, x, y, n, s);
      case F::expm1:
        return run<F::expm1, kTestRounding>(p, x, y, n, s);
      case F::log:
        return run<F::log, kTestRounding>(p, x, y, n, s);
      case F::tanh:
        return run<F::tanh, kTestRounding>(p, x, y, n, s);
      case F::sigmoid:
        return run<F::sigmoid, kTestRounding>(p, x, y, n, s);
      case F::softplus:
        return run<F::softplus, kTestRounding>(p, x, y, n, s);
      case F::log_sigmoid:
        return run<F::log_sigmoid, kTestRounding>(p, x, y, n, s);
      case F::erf:
        return run<F::erf, kTestRounding>(p, x, y, n, s);
      case F::erfc:
        return run<F::erfc, kTestRounding>(p, x, y, n, s);
      case F::silu:
        return run<F::silu, kTestRounding>(p, x, y, n, s);
      case F::gelu:
        return run<F::gelu, kTestRounding>(p, x, y, n, s);
      case F::gelu_tanh:
        return run<F::gelu_tanh, kTestRounding>(p, x, y, n, s);
      case F::mish:
        return run<F::mish, kTestRounding>(p, x, y, n, s);
      case F::softsign:
        return run<F::softsign, kTestRounding>(p, x, y, n, s);
      case F::elu:
        return run<F::elu, kTestRounding>(p, x, y, n, s);
      case F::selu:
        return run<F::selu, kTestRounding>(p, x, y, n, s);
    }
    return 0;
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
  // x - m errs by u |x - m| and the exponential by as much, |x - m| <= 200: 200 u; and 5 u.
  static void exp_shifted(const float* x, float m, double* e, std::int64_t count) {
    const R shift = c(static_cast<double>(m));
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R y = exp(D::max(c(-200), D::sub(widened(x + i, n), shift)));
      if (n == D::lanes)
        D::store(e + i, y);
      else
        D::store(e + i, y, D::first(n));
    });
  }
  ETALON_INLINE static bool store_if_decided(R v, double error, float* y, int n) {
    const R d = D::mul(v, c(error));
    const auto low = D::narrow(D::sub(v, d)), high = D::narrow(D::add(v, d));
    if (n == D::lanes)
      D::narrow_store(y, high);
    else
      D::narrow_store(y, high, n);
    return (D::narrow_differ(low, high) & ((1U << n) - 1U)) == 0;
  }
  static bool divide(const double* e, double s, double error, float* y, std::int64_t count) {
    bool decided = true;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R v = n == D::lanes ? D::load(e + i) : D::load(e + i, D::first(n));
      decided &= store_if_decided(D::div(v, c(s)), error, y + i, n);
    });
    return decided;
  }
  static bool subtract(const float* x, float m, double log_sum, double error, float* y,
                       std::int64_t count) {
    bool decided = true;
    each(count, [&](std::int64_t i, int n) ETALON_INLINE_LAMBDA {
      const R d = D::sub(widened(x + i, n), c(static_cast<double>(m)));
      decided &= store_if_decided(D::sub(d, c(log_sum)), error, y + i, n);
    });
    return decided;
  }
};

}  // namespace etalon
