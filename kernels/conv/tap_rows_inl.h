// The loops of tap_rows.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include "kernels/conv/channel_ending_inl.h"
#include "kernels/conv/tap_rows.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
struct TapSum {
  using Reg = typename V::Reg;
  ETALON_INLINE static Reg add(Reg x, Reg w, Reg sum) { return V::fma(x, w, sum); }
  ETALON_INLINE static Reg result(Reg sum, const TapRowsCall& c, std::int64_t, typename V::Mask) {
    return end_channel<V>(sum, c.bias, c.ending);
  }
};

template <class V>
struct TapAverage {
  using Reg = typename V::Reg;
  ETALON_INLINE static Reg add(Reg x, Reg, Reg sum) { return V::add(sum, x); }
  ETALON_INLINE static Reg result(Reg sum, const TapRowsCall& c, std::int64_t at,
                                  typename V::Mask m) {
    return V::canonical(V::div(sum, V::load(c.divisor + at, m)));
  }
};

// The weight of each tap, in lanes whose output does not meet it -0: there inputs are loaded as +0,
// and adding their product -0 leaves every sum as it is, -0 too. Averages add the +0 itself, and
// theirs are never -0.
template <class V, int kTaps>
ETALON_INLINE void tap_weights(const float* w, const typename V::Mask (&taps)[kTaps],
                               typename V::Reg (&weights)[kTaps * kTaps]) {
  unroll<kTaps * kTaps>([&](auto t) ETALON_INLINE_LAMBDA {
    weights[t] =
        w == nullptr ? V::zero() : V::select(taps[t % kTaps], V::set1(w[t]), V::set1(-0.0F));
  });
}

// kShort: a column's last lane gives no output, so the third taps are the even elements one lane
// on, and a row is two loads instead of four.
template <class V, class Terms, int kTaps, bool kAsks, bool kShort>
void tap_column(const TapRowsCall& c, std::int64_t vector, std::int64_t begin, std::int64_t end) {
  using Reg = typename V::Reg;
  const TapColumn& column = c.columns[vector];
  constexpr int kStep = 2, kLoads = kShort ? 2 : (kTaps + 1) / 2 * 2;
  static_assert(!kShort || kTaps == 3);
  typename V::Mask inside[kLoads], taps[kTaps];
  unroll<kLoads>([&](auto i) ETALON_INLINE_LAMBDA { inside[i] = V::from_bits(column.inside[i]); });
  unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { taps[s] = V::from_bits(column.taps[s]); });
  const typename V::Mask outputs = V::from_bits(column.outputs);
  const std::int64_t first = column.first, in_rows = c.in_rows;
  const std::int64_t in_columns = c.in_columns, out_columns = c.out_columns;
  const TapRow* const tap_rows = c.rows;
  const float* from = c.x + first * kStep - c.pad;
  Reg weights[kTaps * kTaps];
  tap_weights<V, kTaps>(c.w, taps, weights);
  Reg rows[kTaps][kTaps];  // those under the window
  const auto load = [&](auto r, std::int64_t row) ETALON_INLINE_LAMBDA {
    if (row < 0 || row >= in_rows) return;
    const float* x = from + row * in_columns;
    if constexpr (kAsks) {
      __builtin_prefetch(x + c.x_ahead);
      __builtin_prefetch(x + c.x_ahead + V::lanes);
    }
    unroll<kLoads / 2>([&](auto i) ETALON_INLINE_LAMBDA {
      const Reg a = V::load(x + 2 * i, inside[2 * i]),
                b = V::load(x + 2 * i + V::lanes, inside[2 * i + 1]);
      rows[r][2 * i] = V::even(a, b);
      if constexpr (2 * i + 1 < kTaps) rows[r][2 * i + 1] = V::odd(a, b);
    });
    if constexpr (kShort) rows[r][2] = V::next_lane(rows[r][0]);
  };
  unroll<kTaps>([&](auto r) ETALON_INLINE_LAMBDA {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { rows[r][s] = V::zero(); });
  });
  unroll<kTaps - kStep>([&](auto r) ETALON_INLINE_LAMBDA { load(r, tap_rows[begin].first + r); });
  float* y = c.y + first;
  for (std::int64_t o = begin; o < end; ++o) {
    const TapRow row = tap_rows[o];
    unroll<kStep>([&](auto i) ETALON_INLINE_LAMBDA {
      constexpr int r = kTaps - kStep + i;
      load(std::integral_constant<int, r>{}, row.first + r);
    });
    Reg sum = V::zero();
    unroll<kTaps>([&](auto r) ETALON_INLINE_LAMBDA {
      if (r >= row.begin && r < row.end)
        unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
          sum = Terms::add(rows[r][s], weights[r * kTaps + s], sum);
        });
    });
    const std::int64_t at = o * out_columns;
    if constexpr (kAsks) __builtin_prefetch(y + at + c.y_ahead, 1);
    V::store(y + at, Terms::result(sum, c, at + first, outputs), outputs);
    unroll<kTaps - kStep>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { rows[r][s] = rows[r + kStep][s]; });
    });
  }
}

// What the loops read of the call they keep themselves: stores to y might change it, and a copy of
// all of it would wait for the stores of who has just filled it in.
//
// Windows of 3x3 that step by one: a column of outputs. Under row i of the input lie outputs
// i + pad_rows - 2 (by their last row of taps), i + pad_rows - 1 and i + pad_rows (by their first).
template <class V, class Terms, bool kWhole>
void slide_column(const TapRowsCall& c, std::int64_t vector) {
  using Reg = typename V::Reg;
  constexpr int kTaps = 3;
  const TapColumn& column = c.columns[vector];
  typename V::Mask taps[kTaps];
  unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { taps[s] = V::from_bits(column.taps[s]); });
  const typename V::Mask outputs = V::from_bits(column.outputs);
  Reg weights[kTaps * kTaps];
  tap_weights<V, kTaps>(c.w, taps, weights);
  const std::int64_t rows = c.in_rows, end = c.out_rows;
  const std::int64_t in_columns = c.in_columns, out_columns = c.out_columns;
  float* const y = c.y + column.first;
  const float* x = c.x + column.first - c.pad;
  std::int64_t o = c.pad_rows - 2;  // of `oldest`
  Reg oldest = V::zero(), older = V::zero(), newest = V::zero();
  const auto add = [&](auto row, Reg& sum, const Reg(&in)[kTaps]) ETALON_INLINE_LAMBDA {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
      sum = Terms::add(in[s], weights[row * kTaps + s], sum);
    });
  };
  const auto load = [&](Reg(&in)[kTaps]) ETALON_INLINE_LAMBDA {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
      if constexpr (kWhole)
        in[s] = V::load(x + s);
      else
        in[s] = V::load(x + s, taps[s]);
    });
    x += in_columns;
  };
  const auto finish = [&]() ETALON_INLINE_LAMBDA {
    const std::int64_t at = o * out_columns;
    const Reg result = Terms::result(oldest, c, at + column.first, outputs);
    if constexpr (kWhole)
      V::store(y + at, result);
    else
      V::store(y + at, result, outputs);
  };
  const auto pass = [&]() ETALON_INLINE_LAMBDA {
    oldest = older;
    older = newest;
    newest = V::zero();
  };
  constexpr std::integral_constant<int, 0> kFirst{};
  constexpr std::integral_constant<int, 1> kMiddle{};
  constexpr std::integral_constant<int, 2> kLast{};
  std::int64_t i = 0;
  for (; i < rows && o < 0; ++i, ++o) {
    Reg in[kTaps];
    load(in);
    if (o + 1 >= 0 && o + 1 < end) add(kMiddle, older, in);
    if (o + 2 < end) add(kFirst, newest, in);
    pass();
  }
  for (; i < rows && o + 2 < end; ++i, ++o) {
    Reg in[kTaps];
    load(in);
    add(kLast, oldest, in);
    add(kMiddle, older, in);
    add(kFirst, newest, in);
    finish();
    pass();
  }
  for (; i < rows && o < end; ++i, ++o) {
    Reg in[kTaps];
    load(in);
    add(kLast, oldest, in);
    if (o + 1 < end) add(kMiddle, older, in);
    finish();
    pass();
  }
  // Below the input only padding is left.
  for (; o < end; ++o) {
    if (o >= 0) finish();
    pass();
  }
}

template <class V, class Terms>
void slide_rows(const TapRowsCall& c) {
  for (std::int64_t v = 0; v * c.column < c.out_columns; ++v)
    c.columns[v].whole ? slide_column<V, Terms, true>(c, v) : slide_column<V, Terms, false>(c, v);
}

// kAsks: lines of the band to come are asked for, where there are several.
template <class V, class Terms, int kTaps, bool kAsks, bool kShort>
void step_rows(const TapRowsCall& c) {
  for (std::int64_t begin = 0; begin < c.out_rows; begin += c.band) {
    const std::int64_t end = begin + c.band < c.out_rows ? begin + c.band : c.out_rows;
    for (std::int64_t v = 0; v * c.column < c.out_columns; ++v)
      tap_column<V, Terms, kTaps, kAsks, kShort>(c, v, begin, end);
  }
}

template <class V, class Terms, int kTaps, bool kShort>
void step_rows(const TapRowsCall& c) {
  c.band < c.out_rows ? step_rows<V, Terms, kTaps, true, kShort>(c)
                      : step_rows<V, Terms, kTaps, false, kShort>(c);
}

template <class V, class Terms>
void tap_rows(const TapRowsCall& c) {
  if (c.step == 1) return slide_rows<V, Terms>(c);
  if (c.taps == 5) return step_rows<V, Terms, 5, false>(c);
  c.column < V::lanes ? step_rows<V, Terms, 3, true>(c) : step_rows<V, Terms, 3, false>(c);
}

}  // namespace etalon::simd
