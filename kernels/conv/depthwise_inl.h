// The loop of depthwise.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include "kernels/conv/depthwise.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// Chains of neighbouring vectors do not depend on each other, so their latencies overlap without
// being interleaved here. Taps in the padding are masked out of load and fma: they are no terms.
template <class V>
void depthwise_channel(const DepthwiseCall& c) {
  const typename V::Reg bias = c.bias == nullptr ? V::zero() : V::set1(*c.bias);
  for (std::int64_t r = 0; r < c.out_rows; ++r) {
    const float* base = c.x + c.row_base[r];
    const std::int32_t* taps = c.taps + c.first[r];
    const std::int64_t count = c.first[r + 1] - c.first[r];
    float* y = c.y + r * c.out_width;
    for (std::int64_t v = 0, ox = 0; ox < c.out_width; ++v, ox += V::lanes) {
      typename V::Reg acc = V::zero();
      if (c.inner[v] != 0) {
        for (std::int64_t i = 0; i < count; ++i)
          acc = V::fma(V::set1(c.w[taps[i]]), V::load(base + ox + c.offset[taps[i]]), acc);
      } else {
        const std::uint16_t* inside = c.lanes_inside + v * c.tap_count;
        for (std::int64_t i = 0; i < count; ++i) {
          const typename V::Mask m = V::from_bits(inside[taps[i]]);
          acc = V::fma(m, V::set1(c.w[taps[i]]), V::load(base + ox + c.offset[taps[i]], m), acc);
        }
      }
      if (c.bias != nullptr) acc = V::add(acc, bias);
      const std::int64_t left = c.out_width - ox;
      if (left >= V::lanes)
        V::store(y + ox, V::canonical(acc));
      else
        V::store(y + ox, V::canonical(acc), V::first(static_cast<int>(left)));
    }
  }
}

}  // namespace etalon::simd
