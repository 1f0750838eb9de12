// The loop of depthwise.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include "kernels/conv/depthwise.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// What becomes of the terms of a window.
template <class V>
struct WeightedSum {
  typename V::Reg acc = V::zero();
  ETALON_INLINE void add(const DepthwiseCall& c, std::int32_t tap, typename V::Reg x) {
    acc = V::fma(V::set1(c.w[tap]), x, acc);
  }
  ETALON_INLINE void add(const DepthwiseCall& c, std::int32_t tap, typename V::Reg x,
                         typename V::Mask m) {
    acc = V::fma(m, V::set1(c.w[tap]), x, acc);
  }
  ETALON_INLINE typename V::Reg result(const DepthwiseCall& c, const float*, typename V::Mask) {
    return c.bias == nullptr ? acc : V::add(acc, V::set1(*c.bias));
  }
};

// NaN wins, a tie keeps the first: -inf is what a window without taps gives.
template <class V>
struct Maximum {
  typename V::Reg acc = V::set1(-__builtin_inff());
  ETALON_INLINE void add(const DepthwiseCall&, std::int32_t, typename V::Reg x) {
    acc = V::max_keep(acc, x);
  }
  ETALON_INLINE void add(const DepthwiseCall&, std::int32_t, typename V::Reg x,
                         typename V::Mask m) {
    acc = V::select(m, V::max_keep(acc, x), acc);
  }
  ETALON_INLINE typename V::Reg result(const DepthwiseCall&, const float*, typename V::Mask) {
    return acc;
  }
};

template <class V>
struct Average {
  typename V::Reg acc = V::zero();
  ETALON_INLINE void add(const DepthwiseCall&, std::int32_t, typename V::Reg x) {
    acc = V::add(acc, x);
  }
  ETALON_INLINE void add(const DepthwiseCall&, std::int32_t, typename V::Reg x,
                         typename V::Mask m) {
    acc = V::select(m, V::add(acc, x), acc);
  }
  ETALON_INLINE typename V::Reg result(const DepthwiseCall&, const float* divisor,
                                       typename V::Mask m) {
    return V::div(acc, V::load(divisor, m));
  }
};

// Chains of neighbouring vectors do not depend on each other, so their latencies overlap without
// being interleaved here. Taps in the padding are masked out: they are no terms.
template <class V, class Terms>
void window_channel(const DepthwiseCall& c) {
  for (std::int64_t r = 0; r < c.out_rows; ++r) {
    const float* base = c.x + c.row_base[r];
    const std::int32_t* taps = c.taps + c.first[r];
    const std::int64_t count = c.first[r + 1] - c.first[r];
    float* y = c.y + r * c.out_width;
    for (std::int64_t v = 0, ox = 0; ox < c.out_width; ++v, ox += V::lanes) {
      Terms terms;
      if (c.inner[v] != 0) {
        for (std::int64_t i = 0; i < count; ++i)
          terms.add(c, taps[i], V::load(base + ox + c.offset[taps[i]]));
      } else {
        const std::uint16_t* inside = c.lanes_inside + v * c.tap_count;
        for (std::int64_t i = 0; i < count; ++i) {
          const typename V::Mask m = V::from_bits(inside[taps[i]]);
          terms.add(c, taps[i], V::load(base + ox + c.offset[taps[i]], m), m);
        }
      }
      const std::int64_t left = c.out_width - ox;
      const typename V::Mask last = V::first(left >= V::lanes ? V::lanes : static_cast<int>(left));
      const float* divisor = c.divisor == nullptr ? nullptr : c.divisor + r * c.out_width + ox;
      V::store(y + ox, V::canonical(terms.result(c, divisor, last)), last);
    }
  }
}

}  // namespace etalon::simd
