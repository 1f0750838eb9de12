// kernels/conv/exact_depthwise.h over a vector type V of f64 (kernels/gemm/exact_vector_*.h);
// included only by the files of one instruction set each.
#pragma once

#include "kernels/conv/depthwise_inl.h"
#include "kernels/gemm/exact_open_inl.h"

namespace etalon::simd {

// As many f64 as f32 fill a vector.
template <class V>
struct ExactWide {
  using Single = typename V::Single;
  struct Reg {
    typename V::Reg low, high;
  };
  using Mask = typename Single::Mask;
  static constexpr int lanes = Single::lanes;
  ETALON_INLINE static Reg zero() { return {V::zero(), V::zero()}; }
  ETALON_INLINE static Reg set1(float v) {
    const typename V::Reg all = V::set1(static_cast<double>(v));
    return {all, all};
  }
  ETALON_INLINE static Reg load(const float* p) { return {V::widen(p), V::widen(p + V::lanes)}; }
  ETALON_INLINE static Reg load(const float* p, Mask m) {
    const typename Single::Reg v = Single::load(p, m);
    return {V::widen_low(v), V::widen_high(v)};
  }
};

// Sums that are rounded where they are made; taps in the padding add w times zero, which is nothing
// under a finite weight, and NaN, which is never decided, under another.
template <class V>
struct ExactWindowSum {
  using Wide = ExactWide<V>;
  using Out = typename V::Single;
  using Reg = typename Wide::Reg;
  using Mask = typename Wide::Mask;
  ETALON_INLINE static Reg start() { return Wide::zero(); }
  ETALON_INLINE static Reg add(Reg acc, Reg w, Reg x) {
    return {V::fma(w.low, x.low, acc.low), V::fma(w.low, x.high, acc.high)};
  }
  ETALON_INLINE static Reg add(Reg acc, Reg w, const float* x, Mask m) {
    return add(acc, w, Wide::load(x, m));
  }
  // The same terms as exact_decide (kernels/gemm/exact.h).
  ETALON_INLINE static typename Out::Reg kept(Reg acc, const DepthwiseCall& c, std::int64_t q) {
    const typename V::Reg bound = V::set1(c.bound), addition = V::set1(0x1p-51),
                          bias = V::set1(c.bias == nullptr ? -0.0 : static_cast<double>(*c.bias));
    typename V::Narrow low[2], high[2];
    unroll<2>([&](auto i) ETALON_INLINE_LAMBDA {
      const typename V::Reg t = V::add(i == 0 ? acc.low : acc.high, bias),
                            e = V::fma(addition, V::abs(t), bound);
      low[i] = V::narrow(V::sub(t, e));
      high[i] = V::narrow(V::add(t, e));
    });
    const auto lows = V::both(low[0], low[1]), highs = V::both(high[0], high[1]);
    c.open[q / Wide::lanes] = static_cast<std::uint16_t>(
        c.cells == nullptr ? V::differ(lows, highs) : V::apart(lows, highs, *c.cells));
    return lows;
  }
  ETALON_INLINE static typename Out::Reg result(typename Out::Reg sum, const DepthwiseCall&,
                                                std::int64_t, Mask) {
    return sum;
  }
};

template <class V>
void depthwise_exact(const DepthwiseCall& call) {
  window_channel<ExactWide<V>, ExactWindowSum<V>>(call);
}

}  // namespace etalon::simd
