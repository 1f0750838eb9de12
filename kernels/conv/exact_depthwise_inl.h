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

// Which outputs from position q on have nothing but zeros under their window.
template <class Single>
std::uint32_t all_zero(const DepthwiseCall& c, std::int64_t q) {
  const VectorMasks masks = c.masks[q / Single::lanes];
  const std::uint16_t* m = c.inside + masks.first;
  std::uint32_t zero = (1U << Single::lanes) - 1;
  for (std::int64_t r = 0; r < c.tap_rows; ++r)
    for (std::int64_t s = 0; s < c.tap_columns; ++s) {
      const float* x = c.x + q + c.row_offset[r] + c.column_offset[s];
      const auto v = masks.kind == VectorMasks::none
                         ? Single::load(x)
                         : Single::load(x, Single::from_bits(masks.kind == VectorMasks::by_column
                                                                 ? m[s]
                                                                 : m[r * c.tap_columns + s]));
      zero &= Single::to_bits(Single::is_zero(v));
    }
  return zero;
}

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
  // The same terms as exact_decide (kernels/gemm/exact_decide.h).
  ETALON_INLINE static typename Out::Reg kept(Reg acc, const DepthwiseCall& c, std::int64_t q) {
    const typename V::Reg bound = V::set1(c.bound), addition = V::set1(0x1p-51),
                          bias = V::set1(c.bias == nullptr ? -0.0 : static_cast<double>(*c.bias));
    // A sum of zeros, of which an image behind a ReLU has many, is zero without an error.
    std::uint32_t zeros = V::to_bits(V::is_zero(acc.low)) | V::to_bits(V::is_zero(acc.high))
                                                                << V::lanes;
    if (zeros != 0) zeros &= all_zero<Out>(c, q);
    typename V::Narrow low[2], high[2];
    unroll<2>([&](auto i) ETALON_INLINE_LAMBDA {
      const typename V::Reg t = V::add(i == 0 ? acc.low : acc.high, bias),
                            own =
                                V::select(V::from_bits(zeros >> (i * V::lanes)), V::zero(), bound),
                            e = V::fma(addition, V::abs(t), own);
      low[i] = V::narrow(V::sub(t, e));
      high[i] = V::narrow(V::add(t, e));
    });
    const auto lows = V::both(low[0], low[1]), highs = V::both(high[0], high[1]);
    c.open[q / Wide::lanes] = static_cast<std::uint16_t>(exact_open_both<V>(lows, highs, c.cells));
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
