// arg_lanes.h over a vector type V, an F32 of kernels/simd that has, beside: Places, a vector of as
// many 32-bit integers, with places(n), count_up(), plus(a, b), choose(mask, a, b),
// store_places(to64, v, n) and store_all(to32, v); beats<largest, last>(x, best). Included only by
// the files of one instruction set each.
#pragma once

#include <cstdint>

#include "kernels/ordering/arg_lanes.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// Vectors of columns side by side, so that memory is read in runs.
template <class V, bool kLargest, bool kLast, int W>
ETALON_INLINE void arg_columns_of(const float* x, int lanes, std::int64_t extent,
                                  std::int64_t stride, std::int64_t* to) {
  const auto there = V::first(lanes);
  const auto load = [&](const float* from) ETALON_INLINE_LAMBDA {
    if constexpr (W == 1)
      return V::load(from, there);
    else
      return V::load(from);
  };
  typename V::Reg best[W];
  typename V::Places place[W];
  unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
    best[w] = load(x + w * V::lanes);
    place[w] = V::places(0);
  });
  for (std::int64_t i = 1; i < extent; ++i) {
    const auto here = V::places(static_cast<int>(i));
    x += stride;
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      const typename V::Reg v = load(x + w * V::lanes);
      const auto better = V::template beats<kLargest, kLast>(v, best[w]);
      best[w] = V::select(better, v, best[w]);
      place[w] = V::choose(better, here, place[w]);
    });
  }
  unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
    V::store_places(to + w * V::lanes, place[w], W == 1 ? lanes : V::lanes);
  });
}

template <class V, bool kLargest, bool kLast>
void arg_columns(const float* x, std::int64_t n, std::int64_t extent, std::int64_t stride,
                 std::int64_t* to) {
  constexpr int kWide = 4;
  std::int64_t c = 0;
  for (; c + kWide * V::lanes <= n; c += kWide * V::lanes)
    arg_columns_of<V, kLargest, kLast, kWide>(x + c, 0, extent, stride, to + c);
  for (; c < n; c += V::lanes)
    arg_columns_of<V, kLargest, kLast, 1>(
        x + c, n - c < V::lanes ? static_cast<int>(n - c) : V::lanes, extent, stride, to + c);
}

template <class V, bool kLargest, bool kLast>
std::int64_t arg_row(const float* x, std::int64_t extent) {
  if (extent < V::lanes) {
    std::int64_t place = 0;
    arg_columns_of<V, kLargest, kLast, 1>(x, 1, extent, 1, &place);
    return place;
  }
  typename V::Reg best = V::load(x);
  typename V::Places place = V::count_up(), here = place;
  const auto step = V::places(V::lanes);
  const auto take = [&](typename V::Reg v, typename V::Mask among) ETALON_INLINE_LAMBDA {
    here = V::plus(here, step);
    const auto better = V::both(among, V::template beats<kLargest, kLast>(v, best));
    best = V::select(better, v, best);
    place = V::choose(better, here, place);
  };
  std::int64_t i = V::lanes;
  for (; i + V::lanes <= extent; i += V::lanes) take(V::load(x + i), V::first(V::lanes));
  if (i < extent) {
    const auto rest = V::first(static_cast<int>(extent - i));
    take(V::load(x + i, rest), rest);
  }
  // Of the lanes' best the best; equals by their places, which lie in no order any more.
  alignas(64) float values[V::lanes];
  alignas(64) std::int32_t places[V::lanes];
  V::store(values, best);
  V::store_all(places, place);
  int won = 0;
  for (int l = 1; l < V::lanes; ++l) {
    const float v = values[l], b = values[won];
    const bool nan = v != v, best_nan = b != b;
    const bool equal = nan || best_nan ? nan && best_nan : v == b;
    const bool later = places[l] > places[won];
    if (equal ? later == kLast : nan || (!best_nan && (kLargest ? v > b : v < b))) won = l;
  }
  return places[won];
}

template <class V>
const ArgLanes& arg_lanes_of(bool largest, bool last) {
  static constexpr ArgLanes kLanes[2][2] = {
      {{arg_columns<V, false, false>, arg_row<V, false, false>},
       {arg_columns<V, false, true>, arg_row<V, false, true>}},
      {{arg_columns<V, true, false>, arg_row<V, true, false>},
       {arg_columns<V, true, true>, arg_row<V, true, true>}}};
  return kLanes[largest ? 1 : 0][last ? 1 : 0];
}

}  // namespace etalon::simd
