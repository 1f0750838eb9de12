// The loop of depthwise.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include "kernels/conv/channel_ending_inl.h"
#include "kernels/conv/depthwise.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// What becomes of the terms of a window: where the sum starts, one term more, what is kept of a sum
// (registers of Out), the result.
template <class V>
struct WeightedSum {
  using Out = V;
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
  ETALON_INLINE static Reg start() { return V::zero(); }
  ETALON_INLINE static Reg kept(Reg acc, const DepthwiseCall&, std::int64_t) { return acc; }
  ETALON_INLINE static Reg add(Reg acc, Reg w, Reg x) { return V::fma(w, x, acc); }
  ETALON_INLINE static Reg add(Reg acc, Reg w, const float* x, Mask m) {
    return V::fma(m, w, V::load(x, m), acc);
  }
  ETALON_INLINE static Reg result(Reg acc, const DepthwiseCall& c, std::int64_t, Mask) {
    return end_channel<V>(acc, c.bias, c.ending);
  }
};

// NaN wins, a tie keeps the first: -inf is what a window without taps gives.
template <class V>
struct Maximum {
  using Out = V;
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
  ETALON_INLINE static Reg start() { return V::set1(-__builtin_inff()); }
  ETALON_INLINE static Reg kept(Reg acc, const DepthwiseCall&, std::int64_t) { return acc; }
  ETALON_INLINE static Reg add(Reg acc, Reg, Reg x) { return V::max_keep(acc, x); }
  ETALON_INLINE static Reg add(Reg acc, Reg, const float* x, Mask m) {
    return V::select(m, V::max_keep(acc, V::load(x, m)), acc);
  }
  ETALON_INLINE static Reg result(Reg acc, const DepthwiseCall&, std::int64_t, Mask) {
    return V::canonical(acc);
  }
};

template <class V>
struct Average {
  using Out = V;
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
  ETALON_INLINE static Reg start() { return V::zero(); }
  ETALON_INLINE static Reg kept(Reg acc, const DepthwiseCall&, std::int64_t) { return acc; }
  ETALON_INLINE static Reg add(Reg acc, Reg, Reg x) { return V::add(acc, x); }
  ETALON_INLINE static Reg add(Reg acc, Reg, const float* x, Mask m) {
    return V::select(m, V::add(acc, V::load(x, m)), acc);
  }
  ETALON_INLINE static Reg result(Reg acc, const DepthwiseCall& c, std::int64_t output, Mask m) {
    return V::canonical(V::div(acc, V::load(c.divisor + output, m)));
  }
};

template <int C, class Row, class Column>
ETALON_INLINE auto tap(Row r, Column s, std::int64_t width) {
  if constexpr (C > 0)
    return std::integral_constant<int, Row::value * C + Column::value>{};
  else
    return r * width + s;
}

// Calls f(row, column) for every tap in order; unrolled where the window's extents are known.
template <int R, int C, class F>
ETALON_INLINE void each_tap(const DepthwiseCall& c, F f) {
  if constexpr (R > 0) {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<C>([&](auto s) ETALON_INLINE_LAMBDA { f(r, s); });
    });
  } else {
    for (std::int64_t r = 0; r < c.tap_rows; ++r)
      for (std::int64_t s = 0; s < c.tap_columns; ++s) f(r, s);
  }
}

// R x C is the window where it is one of the usual, else 0: weights and offsets then stay in
// registers. Chains of neighbouring vectors do not depend on each other: the processor overlaps
// their latencies.
template <class V, class Terms, int R, int C>
void window_channel_of(const DepthwiseCall& call) {
  using Out = typename Terms::Out;
  // A copy: stores to y cannot change it, so it is not read again.
  const DepthwiseCall c = call;
  const std::int64_t width = C > 0 ? C : c.tap_columns;
  typename V::Reg kept[R > 0 ? R * C : 1];
  if constexpr (R > 0)
    unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA {
      kept[t] = c.w == nullptr ? V::zero() : V::set1(c.w[t]);
    });
  const auto weight = [&](auto t) ETALON_INLINE_LAMBDA {
    if constexpr (R > 0)
      return kept[t];
    else
      return c.w == nullptr ? V::zero() : V::set1(c.w[t]);
  };
  std::int64_t row[R > 0 ? R : 1], column[C > 0 ? C : 1];
  if constexpr (R > 0) {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { row[r] = c.row_offset[r]; });
    unroll<C>([&](auto s) ETALON_INLINE_LAMBDA { column[s] = c.column_offset[s]; });
  }
  const auto at = [&](const float* x, auto r, auto s) ETALON_INLINE_LAMBDA {
    if constexpr (R > 0)
      return x + row[r] + column[s];
    else
      return x + c.row_offset[r] + c.column_offset[s];
  };
  for (std::int64_t q = 0; q < c.run; q += V::lanes) {
    const float* x = c.x + q;
    typename V::Reg acc = Terms::start();
    const VectorMasks masks = c.masks[q / V::lanes];
    const std::uint16_t* m = c.inside + masks.first;
    switch (masks.kind) {
      case VectorMasks::none:
        each_tap<R, C>(c, [&](auto r, auto s) ETALON_INLINE_LAMBDA {
          acc = Terms::add(acc, weight(tap<C>(r, s, width)), V::load(at(x, r, s)));
        });
        break;
      case VectorMasks::by_column:
        each_tap<R, C>(c, [&](auto r, auto s) ETALON_INLINE_LAMBDA {
          acc = Terms::add(acc, weight(tap<C>(r, s, width)), at(x, r, s), Out::from_bits(m[s]));
        });
        break;
      case VectorMasks::by_tap:
        each_tap<R, C>(c, [&](auto r, auto s) ETALON_INLINE_LAMBDA {
          const auto t = tap<C>(r, s, width);
          acc = Terms::add(acc, weight(t), at(x, r, s), Out::from_bits(m[t]));
        });
        break;
    }
    const typename Out::Reg sum = Terms::kept(acc, c, q);
    if (c.sums != nullptr) {
      Out::store(c.sums + q, sum);
      continue;
    }
    const std::int64_t left = c.pixels - q;
    const typename V::Mask last = Out::first(left >= V::lanes ? V::lanes : static_cast<int>(left));
    Out::store(c.y + q, Terms::result(sum, c, q, last), last);
  }
  if (c.sums == nullptr) return;
  for (std::int64_t r = 0; r < c.out_rows; ++r)
    for (std::int64_t ox = 0; ox < c.out_width; ox += V::lanes) {
      const std::int64_t left = c.out_width - ox, output = r * c.out_width + ox;
      const typename V::Mask last =
          Out::first(left >= V::lanes ? V::lanes : static_cast<int>(left));
      const typename Out::Reg sum = Out::load(c.sums + c.row_at[r] + ox, last);
      Out::store(c.y + output, Terms::result(sum, c, output, last), last);
    }
}

template <class V, class Terms>
void window_channel(const DepthwiseCall& c) {
  if (c.tap_rows == 3 && c.tap_columns == 3) return window_channel_of<V, Terms, 3, 3>(c);
  if (c.tap_rows == 2 && c.tap_columns == 2) return window_channel_of<V, Terms, 2, 2>(c);
  window_channel_of<V, Terms, 0, 0>(c);
}

template <class V>
void split_pairs_of(const PairRows& r) {
  const std::int64_t whole = r.count / (2 * V::lanes) * (2 * V::lanes);
  const auto left = static_cast<int>(r.count - whole);
  const typename V::Mask low = V::first(left);
  const typename V::Mask high = V::first(left > V::lanes ? left - V::lanes : 0);
  const typename V::Mask even = V::first((left + 1) / 2), odd = V::first(left / 2);
  for (std::int64_t row = 0; row < r.rows; ++row) {
    const float* from = r.from + row * r.from_row;
    float* to_even = r.even + row * r.to_row;
    float* to_odd = r.odd == nullptr ? nullptr : r.odd + row * r.to_row;
    for (std::int64_t i = 0; i < whole; i += 2 * V::lanes) {
      const typename V::Reg a = V::load(from + i), b = V::load(from + i + V::lanes);
      V::store(to_even + i / 2, V::even(a, b));
      if (to_odd != nullptr) V::store(to_odd + i / 2, V::odd(a, b));
    }
    if (left == 0) continue;
    const typename V::Reg a = V::load(from + whole, low);
    const typename V::Reg b = left > V::lanes ? V::load(from + whole + V::lanes, high) : V::zero();
    V::store(to_even + whole / 2, V::even(a, b), even);
    if (to_odd != nullptr) V::store(to_odd + whole / 2, V::odd(a, b), odd);
  }
}

}  // namespace etalon::simd
