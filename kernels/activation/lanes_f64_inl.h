// lanes_f64.h over a vector type V of f64_pairs.h with load and store; included only by the files
// of one instruction set each.
#pragma once

#include "engine/numerics/elementary/f64_pairs.h"
#include "kernels/activation/lanes_f64.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V, class F>
ETALON_INLINE void run_f64_of(double* x, std::int64_t count, const F64Fallback& fallback, F f) {
  const auto settle = [&](std::uint32_t open, const double* in, double* out) {
    for (; open != 0; open &= open - 1) {
      const int lane = __builtin_ctz(open);
      out[lane] = fallback.scalar(fallback.context, in[lane]);
    }
  };
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes) {
    const auto v = V::load(x + i);
    const auto r = f(v);
    V::store(x + i, r.value);
    if (const std::uint32_t open = V::to_bits(r.open); open != 0) [[unlikely]] {
      double in[V::lanes];
      V::store(in, v);
      settle(open, in, x + i);
    }
  }
  if (i == count) return;
  double in[V::lanes] = {}, out[V::lanes];
  for (std::int64_t lane = 0; lane < count - i; ++lane) in[lane] = x[i + lane];
  const auto r = f(V::load(in));
  V::store(out, r.value);
  settle(V::to_bits(r.open) & ((1U << (count - i)) - 1U), in, out);
  for (std::int64_t lane = 0; lane < count - i; ++lane) x[i + lane] = out[lane];
}

template <class V>
void run_f64(F64Function f, const F64Params& params, double* x, std::int64_t count,
             const F64Fallback& fallback) {
  using P = F64Pairs<V>;
  using R = typename V::Reg;
  const double a = params.alpha, b = params.beta;
  const auto run = [&](auto of) ETALON_INLINE_LAMBDA { run_f64_of<V>(x, count, fallback, of); };
  switch (f) {
    case F64Function::exp:
      return run([](R v) ETALON_INLINE_LAMBDA { return P::exp_result(v); });
    case F64Function::log:
      return run([](R v) ETALON_INLINE_LAMBDA { return P::log_result(v); });
    case F64Function::log1p:
      return run([](R v) ETALON_INLINE_LAMBDA { return P::log1p_result(v); });
    case F64Function::sigmoid:
      return run([](R v) ETALON_INLINE_LAMBDA { return P::sigmoid_result(v); });
    case F64Function::tanh:
      return run([](R v) ETALON_INLINE_LAMBDA { return P::tanh_result(v); });
    case F64Function::softplus:
      return run([](R v) ETALON_INLINE_LAMBDA { return P::softplus_result(v); });
    case F64Function::elu:
      return run([a](R v) ETALON_INLINE_LAMBDA { return P::elu_result(v, a); });
    case F64Function::scaled_tanh:
      return run([a, b](R v) ETALON_INLINE_LAMBDA { return P::scaled_tanh_result(v, a, b); });
    case F64Function::pow:
      if (a == 0.75) return run([](R v) ETALON_INLINE_LAMBDA { return P::pow_three_quarters(v); });
      return run([a](R v) ETALON_INLINE_LAMBDA { return P::pow_result(v, a); });
  }
}

// Doubles rounds to nearest, Directed<round> the other ways.
template <class Doubles, template <Round> class Directed>
void run_f64_rounded(F64Function f, Round round, const F64Params& params, double* x,
                     std::int64_t count, const F64Fallback& fallback) {
  switch (round) {
    case Round::nearest_even:
      return run_f64<Doubles>(f, params, x, count, fallback);
    case Round::toward_zero:
      return run_f64<Directed<Round::toward_zero>>(f, params, x, count, fallback);
    case Round::upward:
      return run_f64<Directed<Round::upward>>(f, params, x, count, fallback);
    case Round::downward:
      return run_f64<Directed<Round::downward>>(f, params, x, count, fallback);
  }
}

}  // namespace etalon::simd
