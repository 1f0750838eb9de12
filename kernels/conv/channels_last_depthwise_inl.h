// The loop of channels_last_depthwise.h over a vector type V; included only by the files of one
// instruction set.
#pragma once

#include "kernels/conv/channels_last_depthwise.h"
#include "kernels/simd/least_part.h"
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
ETALON_INLINE void each_vector(const DepthwiseRun& d, F f) {
  std::int64_t c = d.first_channel;
  for (; c + V::lanes <= d.last_channel; c += V::lanes) f(c, WholeVector{});
  if (c < d.last_channel) f(c, V::first(static_cast<int>(d.last_channel - c)));
}

// Sums of the channels from c on, as they are stored: with their bias, and what follows.
template <class V, std::size_t N, class Lanes>
ETALON_INLINE void end_lanes(typename V::Reg (&sums)[N], const DepthwiseRun& d, std::int64_t c,
                             Lanes lanes) {
  using Reg = typename V::Reg;
  const auto each = [&](auto f) ETALON_INLINE_LAMBDA {
    unroll<static_cast<int>(N)>([&](auto r) ETALON_INLINE_LAMBDA { sums[r] = f(sums[r]); });
  };
  if (d.bias != nullptr) {
    const Reg bias = load_lanes<V>(d.bias + c, lanes);
    each([&](Reg sum) ETALON_INLINE_LAMBDA { return V::add(sum, bias); });
  }
  if (d.ending != nullptr && d.ending->mean != nullptr) {
    const Reg mean = load_lanes<V>(d.ending->mean + c, lanes);
    const Reg factor = load_lanes<V>(d.ending->factor + c, lanes);
    const Reg bias = load_lanes<V>(d.ending->bias + c, lanes);
    if (d.ending->fused)
      each([&](Reg sum) ETALON_INLINE_LAMBDA { return V::fma(V::sub(sum, mean), factor, bias); });
    else
      each([&](Reg sum)
               ETALON_INLINE_LAMBDA { return V::add(V::mul(V::sub(sum, mean), factor), bias); });
  }
  if (d.ending != nullptr && d.ending->relu)
    each([](Reg sum) ETALON_INLINE_LAMBDA { return V::relu(sum); });
  else
    each([](Reg sum) ETALON_INLINE_LAMBDA { return V::canonical(sum); });
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
    const float* w = d.w + c * d.tap_rows * kTaps + t * kTaps * V::lanes;
    typename V::Reg wv[kTaps];
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { wv[s] = V::load(w + s * V::lanes); });
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
  end_lanes<V>(acc, d, c, lanes);
  unroll<kRun>([&](auto r) ETALON_INLINE_LAMBDA {
    store_lanes<V>(d.y + (first + r) * d.channels + c, acc[r], lanes);
  });
}

template <class V, int kTaps, int kStride>
void depthwise_rows(const DepthwiseRun& d) {
  const std::int64_t tiles = (d.count + kDepthwiseRun - 1) / kDepthwiseRun;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t i = t * d.count / tiles, size = (t + 1) * d.count / tiles - i;
    unroll<kDepthwiseRun>([&](auto n) ETALON_INLINE_LAMBDA {
      if (size != n + 1) return;
      each_vector<V>(d, [&](std::int64_t c, auto lanes) ETALON_INLINE_LAMBDA {
        depthwise_tile<V, n + 1, kTaps, kStride>(d, i, c, lanes);
      });
    });
  }
}

// One output and one vector of channels, any window.
template <class V, class Lanes>
ETALON_INLINE void depthwise_output(const DepthwiseRun& d, std::int64_t i, std::int64_t c,
                                    Lanes lanes) {
  typename V::Reg acc[1] = {V::zero()};
  const float* w = d.w + c * d.tap_rows * d.tap_columns;
  for (std::int64_t t = 0; t < d.tap_rows; ++t) {
    const std::int64_t row = d.row + t * d.row_dilation;
    if (row < 0 || row >= d.in_rows) continue;
    for (std::int64_t s = 0; s < d.tap_columns; ++s) {
      const std::int64_t column = d.column + i * d.stride + s * d.column_dilation;
      if (column < 0 || column >= d.in_columns) continue;
      acc[0] = V::fma(load_lanes<V>(d.x + (row * d.in_columns + column) * d.channels + c, lanes),
                      V::load(w + (t * d.tap_columns + s) * V::lanes), acc[0]);
    }
  }
  end_lanes<V>(acc, d, c, lanes);
  store_lanes<V>(d.y + i * d.channels + c, acc[0], lanes);
}

template <class V>
void depthwise_row(const DepthwiseRun& d) {
  const bool dense = d.column_dilation == 1;
  if (dense && d.tap_columns == 3 && d.stride == 1) return depthwise_rows<V, 3, 1>(d);
  if (dense && d.tap_columns == 3 && d.stride == 2) return depthwise_rows<V, 3, 2>(d);
  if (dense && d.tap_columns == 5 && d.stride == 1) return depthwise_rows<V, 5, 1>(d);
  for (std::int64_t i = 0; i < d.count; ++i)
    each_vector<V>(d, [&](std::int64_t c, auto lanes)
                          ETALON_INLINE_LAMBDA { depthwise_output<V>(d, i, c, lanes); });
}

// All rows, kRun outputs of each, and kVectors vectors of channels, windows of 3x3 without gaps and
// at most one column of padding on either side.
template <class V, int kRun, int kVectors, int kStride>
void depthwise_down(const DepthwiseRun& d, std::int64_t first, std::int64_t c) {
  using Reg = typename V::Reg;
  constexpr int kTaps = 3, kSets = kStride == 1 ? 3 : 2;
  constexpr int kInputs = (kRun - 1) * kStride + kTaps;
  const std::int64_t column = d.column + first * kStride;
  const bool left = column<0, right = column + kInputs> d.in_columns;
  const std::int64_t point = d.channels;
  const float* x = d.x + (d.row * d.in_columns + column) * point + c;
  const float* bias = d.bias == nullptr ? nullptr : d.bias + c;
  float* y = d.y + first * point + c;
  const float* weights = d.w + c * kTaps * kTaps;
  Reg w[kTaps * kTaps][kVectors];
  unroll<kTaps * kTaps>([&](auto t) ETALON_INLINE_LAMBDA {
    unroll<kVectors>([&](auto v) ETALON_INLINE_LAMBDA {
      w[t][v] = V::load(weights + (v * kTaps * kTaps + t) * V::lanes);
    });
  });
  // Of the rows of outputs under way; the uppermost first.
  Reg acc[kSets][kRun][kVectors];
  const auto each = [&](auto f) ETALON_INLINE_LAMBDA {
    unroll<kRun>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<kVectors>([&](auto v) ETALON_INLINE_LAMBDA { f(r, v); });
    });
  };
  const auto start = [&](auto set) ETALON_INLINE_LAMBDA {
    each([&](auto r, auto v) ETALON_INLINE_LAMBDA { acc[set][r][v] = V::zero(); });
  };
  // The next row of inputs, under row t of the taps of the set that is given for it, if any.
  std::int64_t row = d.row;
  const auto add = [&](auto set0, auto set1, auto set2) ETALON_INLINE_LAMBDA {
    constexpr int kSet[kTaps] = {set0, set1, set2};
    if (row >= 0 && row < d.in_rows)
      unroll<kInputs>([&](auto j) ETALON_INLINE_LAMBDA {
        if (j == 0 && left) return;
        if (j == kInputs - 1 && right) return;
        unroll<kVectors>([&](auto v) ETALON_INLINE_LAMBDA {
          const Reg xv = V::load(x + j * point + v * V::lanes);
          unroll<kTaps>([&](auto t) ETALON_INLINE_LAMBDA {
            if constexpr (kSet[t] >= 0)
              unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
                if constexpr (j >= s && (j - s) % kStride == 0 && (j - s) / kStride < kRun) {
                  Reg& sum = acc[kSet[t]][(j - s) / kStride][v];
                  sum = V::fma(xv, w[t * kTaps + s][v], sum);
                }
              });
          });
        });
      });
    ++row;
    x += d.in_columns * point;
  };

  const auto finish = [&]() ETALON_INLINE_LAMBDA {
    if (d.ending != nullptr) {
      unroll<kVectors>([&](auto v) ETALON_INLINE_LAMBDA {
        Reg sums[kRun];
        unroll<kRun>([&](auto r) ETALON_INLINE_LAMBDA { sums[r] = acc[0][r][v]; });
        end_lanes<V>(sums, d, c + v * V::lanes, WholeVector{});
        unroll<kRun>([&](auto r) ETALON_INLINE_LAMBDA { acc[0][r][v] = sums[r]; });
      });
    } else {
      if (bias != nullptr)
        each([&](auto r, auto v) ETALON_INLINE_LAMBDA {
          acc[0][r][v] = V::add(acc[0][r][v], V::load(bias + v * V::lanes));
        });
      // Their sum is NaN where one of them is (and seldom else).
      Reg sum = acc[0][0][0];
      each([&](auto r, auto v) ETALON_INLINE_LAMBDA {
        if constexpr (r + v > 0) sum = V::add(sum, acc[0][r][v]);
      });
      if (V::to_bits(V::is_nan(sum)) != 0) [[unlikely]]
        each([&](auto r, auto v)
                 ETALON_INLINE_LAMBDA { acc[0][r][v] = V::canonical(acc[0][r][v]); });
    }
    each([&](auto r, auto v)
             ETALON_INLINE_LAMBDA { V::store(y + r * point + v * V::lanes, acc[0][r][v]); });
    y += d.count * point;
    unroll<kSets - 1>([&](auto s) ETALON_INLINE_LAMBDA {
      each([&](auto r, auto v) ETALON_INLINE_LAMBDA { acc[s][r][v] = acc[s + 1][r][v]; });
    });
  };
  constexpr std::integral_constant<int, -1> kNone;
  constexpr std::integral_constant<int, 0> kFirst;
  constexpr std::integral_constant<int, 1> kSecond;
  constexpr std::integral_constant<int, kSets - 1> kLast;
  start(kFirst);
  add(kFirst, kNone, kNone);
  if constexpr (kStride == 1) {
    start(kSecond);
    add(kSecond, kFirst, kNone);
    for (std::int64_t i = 2; i < d.rows; ++i) {
      start(kLast);
      add(kLast, kSecond, kFirst);
      finish();
    }
    add(kNone, kSecond, kFirst);
    finish();
  } else {
    add(kNone, kFirst, kNone);
    for (std::int64_t i = 1; i < d.rows; ++i) {
      start(kLast);
      add(kLast, kNone, kFirst);
      finish();
      add(kNone, kFirst, kNone);
    }
  }
  add(kNone, kNone, kFirst);
  finish();
}

// Such tiles, of up to kMost outputs of a row of kDepthwiseRun or more. Of pixels 2 KiB apart
// sixteen lines fill their sets of the first cache, and the pixels of a small image lie in more
// pages than the processor has at hand: two vectors lie in two sets, of the same page. With a
// stride of two there are few fma to hide a load. In sixteen registers the weights are operands
// from memory, and two vectors are a line: a load should have its whole line where that would come
// twice, for want of fma or of sets.
inline constexpr std::int64_t kSharingChannels = 512;
template <class V, int kVectors, int kMost, int kStride>
void depthwise_columns(const DepthwiseRun& d) {
  constexpr int kLeast = least_part(kDepthwiseRun, kMost);
  const std::int64_t tiles = (d.count + kMost - 1) / kMost;
  for (std::int64_t t = 0; t < tiles; ++t) {
    const std::int64_t i = t * d.count / tiles, size = (t + 1) * d.count / tiles - i;
    unroll<kMost - kLeast + 1>([&](auto n) ETALON_INLINE_LAMBDA {
      if (size != n + kLeast) return;
      for (std::int64_t c = d.first_channel; c < d.last_channel; c += kVectors * V::lanes)
        depthwise_down<V, n + kLeast, kVectors, kStride>(d, i, c);
    });
  }
}

template <class V>
void depthwise_run_of(DepthwiseRun d) {
  const bool dense = d.tap_rows == 3 && d.tap_columns == 3 && d.row_dilation == 1 &&
                     d.column_dilation == 1 && d.row_stride == d.stride;
  const std::int64_t end = d.column + (d.count - 1) * d.stride + 3;
  const bool near_edges = d.column >= -1 && end <= d.in_columns + 1;
  if (dense && near_edges && d.stride <= 2 && d.rows > 1 && d.count >= kDepthwiseRun) {
    constexpr bool kWide = V::registers == 32;
    const std::int64_t last = d.last_channel;
    // What fills so many vectors; the rest is left for the next.
    const auto part = [&](int vectors, auto walk) {
      const std::int64_t size = vectors * V::lanes;
      d.last_channel = d.first_channel + (last - d.first_channel) / size * size;
      if (d.first_channel < d.last_channel) walk(d);
      d.first_channel = d.last_channel;
    };
    constexpr int kMost = kWide ? 7 : 4, kMostPairs = kWide ? 3 : 2;
    if (d.channels % kSharingChannels == 0 || d.stride == 2)
      part(2,
           d.stride == 2 ? depthwise_columns<V, 2, 3, 2> : depthwise_columns<V, 2, kMostPairs, 1>);
    if (d.stride == 1)
      part(1, depthwise_columns<V, 1, kMost, 1>);
    else if constexpr (kWide)
      part(1, depthwise_columns<V, 1, 7, 2>);
    d.last_channel = last;
  }
  for (std::int64_t i = 0; d.first_channel < d.last_channel && i < d.rows; ++i) {
    depthwise_row<V>(d);
    d.row += d.row_stride;
    d.y += d.count * d.channels;
  }
}

}  // namespace etalon::simd
