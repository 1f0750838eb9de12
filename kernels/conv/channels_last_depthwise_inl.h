// The loop of channels_last_depthwise.h over a vector type V; included only by the files of one
// instruction set.
#pragma once

#include "kernels/conv/channels_last_depthwise.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// In the place of a mask: all lanes.
struct WholeVector {};
template <class V>
ETALON_INLINE typename V::Reg load_lanes(const float* p, WholeVector) {
  return V::load(p);
}
template <class V>
ETALON_INLINE typename V::Reg load_lanes(const float* p, typename V::Mask lanes) {
  return V::load(p, lanes);
}
template <class V>
ETALON_INLINE void store_lanes(float* p, typename V::Reg v, WholeVector) {
  V::store(p, v);
}
template <class V>
ETALON_INLINE void store_lanes(float* p, typename V::Reg v, typename V::Mask lanes) {
  V::store(p, v, lanes);
}

// f(c, lanes) for each vector of channels. Channels inside outputs: each input that a tile meets is
// then one stream of memory.
template <class V, class F>
ETALON_INLINE void each_vector(std::int64_t channels, F f) {
  std::int64_t c = 0;
  for (; c + V::lanes <= channels; c += V::lanes) f(c, WholeVector{});
  if (c < channels) f(c, V::first(static_cast<int>(channels - c)));
}

// kRun outputs and one vector of channels, windows of kTaps columns without gaps.
template <class V, int kRun, int kTaps, int kStride, class Lanes>
ETALON_INLINE void depthwise_tile(const DepthwiseRun& d, std::int64_t first, std::int64_t c,
                                  Lanes lanes) {
  constexpr int kInputs = (kRun - 1) * kStride + kTaps;
  typename V::Reg acc[kRun];
  unroll<kRun>([&](auto r) ETALON_INLINE_LAMBDA { acc[r] = V::zero(); });
  const std::int64_t column = d.column + first * kStride;
  const bool inside = column >= 0 && column + kInputs <= d.in_columns;
  for (std::int64_t t = 0; t < d.tap_rows; ++t) {
    const std::int64_t row = d.row + t * d.row_dilation;
    if (row < 0 || row >= d.in_rows) continue;
    const float* x = d.x + (row * d.in_columns + column) * d.channels + c;
    const float* w = d.w + t * kTaps * d.channels + c;
    typename V::Reg wv[kTaps];
    unroll<kTaps>([&](auto s)
                      ETALON_INLINE_LAMBDA { wv[s] = load_lanes<V>(w + s * d.channels, lanes); });
    const auto add = [&](auto j) ETALON_INLINE_LAMBDA {
      const typename V::Reg xv = load_lanes<V>(x + j * d.channels, lanes);
      unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
        if constexpr (j >= s && (j - s) % kStride == 0 && (j - s) / kStride < kRun)
          acc[(j - s) / kStride] = V::fma(xv, wv[s], acc[(j - s) / kStride]);
      });
    };
    if (inside)
      unroll<kInputs>(add);
    else
      unroll<kInputs>([&](auto j) ETALON_INLINE_LAMBDA {
        if (column + j >= 0 && column + j < d.in_columns) add(j);
      });
  }
  const typename V::Reg bias = d.bias == nullptr ? V::zero() : load_lanes<V>(d.bias + c, lanes);
  unroll<kRun>([&](auto r) ETALON_INLINE_LAMBDA {
    const typename V::Reg sum = d.bias == nullptr ? acc[r] : V::add(acc[r], bias);
    store_lanes<V>(d.y + (first + r) * d.channels + c, V::canonical(sum), lanes);
  });
}

template <class V, int kTaps, int kStride>
void depthwise_rows(const DepthwiseRun& d) {
  const std::int64_t tiles = (d.count + kDepthwiseRun - 1) / kDepthwiseRun;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t i = t * d.count / tiles, size = (t + 1) * d.count / tiles - i;
    unroll<kDepthwiseRun>([&](auto n) ETALON_INLINE_LAMBDA {
      if (size != n + 1) return;
      each_vector<V>(d.channels, [&](std::int64_t c, auto lanes) ETALON_INLINE_LAMBDA {
        depthwise_tile<V, n + 1, kTaps, kStride>(d, i, c, lanes);
      });
    });
  }
}

// One output and one vector of channels, any window.
template <class V, class Lanes>
ETALON_INLINE void depthwise_output(const DepthwiseRun& d, std::int64_t i, std::int64_t c,
                                    Lanes lanes) {
  typename V::Reg acc = V::zero();
  for (std::int64_t t = 0; t < d.tap_rows; ++t) {
    const std::int64_t row = d.row + t * d.row_dilation;
    if (row < 0 || row >= d.in_rows) continue;
    for (std::int64_t s = 0; s < d.tap_columns; ++s) {
      const std::int64_t column = d.column + i * d.stride + s * d.column_dilation;
      if (column < 0 || column >= d.in_columns) continue;
      acc = V::fma(load_lanes<V>(d.x + (row * d.in_columns + column) * d.channels + c, lanes),
                   load_lanes<V>(d.w + (t * d.tap_columns + s) * d.channels + c, lanes), acc);
    }
  }
  if (d.bias != nullptr) acc = V::add(acc, load_lanes<V>(d.bias + c, lanes));
  store_lanes<V>(d.y + i * d.channels + c, V::canonical(acc), lanes);
}

template <class V>
void depthwise_run_of(const DepthwiseRun& d) {
  const bool dense = d.column_dilation == 1;
  if (dense && d.tap_columns == 3 && d.stride == 1) return depthwise_rows<V, 3, 1>(d);
  if (dense && d.tap_columns == 3 && d.stride == 2) return depthwise_rows<V, 3, 2>(d);
  if (dense && d.tap_columns == 5 && d.stride == 1) return depthwise_rows<V, 5, 1>(d);
  for (std::int64_t i = 0; i < d.count; ++i)
    each_vector<V>(d.channels, [&](std::int64_t c, auto lanes)
                                   ETALON_INLINE_LAMBDA { depthwise_output<V>(d, i, c, lanes); });
}

}  // namespace etalon::simd
