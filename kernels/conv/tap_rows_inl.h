// The loops of tap_rows.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include "kernels/conv/tap_rows.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
struct TapSum {
  using Reg = typename V::Reg;
  ETALON_INLINE static Reg add(typename V::Mask m, Reg x, Reg w, Reg sum) {
    return V::fma(m, x, w, sum);
  }
  ETALON_INLINE static Reg add(Reg x, Reg w, Reg sum) { return V::fma(x, w, sum); }
  ETALON_INLINE static Reg result(Reg sum, const TapRowsCall& c, std::int64_t, typename V::Mask) {
    return c.bias == nullptr ? sum : V::add(sum, V::set1(*c.bias));
  }
};

template <class V>
struct TapAverage {
  using Reg = typename V::Reg;
  ETALON_INLINE static Reg add(typename V::Mask m, Reg x, Reg, Reg sum) {
    return V::select(m, V::add(sum, x), sum);
  }
  ETALON_INLINE static Reg add(Reg x, Reg, Reg sum) { return V::add(sum, x); }
  ETALON_INLINE static Reg result(Reg sum, const TapRowsCall& c, std::int64_t at,
                                  typename V::Mask m) {
    return V::div(sum, V::load(c.divisor + at, m));
  }
};

template <class V, class Terms, int kTaps, bool kAsks>
void tap_column(const TapRowsCall& c, std::int64_t vector, std::int64_t begin, std::int64_t end) {
  using Reg = typename V::Reg;
  const TapColumn& column = c.columns[vector];
  constexpr int kStep = 2, kLoads = (kTaps + 1) / 2 * 2;
  typename V::Mask inside[kLoads], taps[kTaps];
  unroll<kLoads>([&](auto i) ETALON_INLINE_LAMBDA { inside[i] = V::from_bits(column.inside[i]); });
  unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { taps[s] = V::from_bits(column.taps[s]); });
  const typename V::Mask outputs = V::from_bits(column.outputs);
  const float* from = c.x + vector * V::lanes * kStep - c.pad;
  Reg weights[kTaps * kTaps];
  unroll<kTaps * kTaps>([&](auto t) ETALON_INLINE_LAMBDA {
    weights[t] = c.w == nullptr ? V::zero() : V::set1(c.w[t]);
  });
  Reg rows[kTaps][kTaps];  // those under the window
  const auto load = [&](auto r, std::int64_t row) ETALON_INLINE_LAMBDA {
    if (row < 0 || row >= c.in_rows) return;
    const float* x = from + row * c.in_columns;
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
  };
  unroll<kTaps>([&](auto r) ETALON_INLINE_LAMBDA {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { rows[r][s] = V::zero(); });
  });
  unroll<kTaps - kStep>([&](auto r) ETALON_INLINE_LAMBDA { load(r, c.rows[begin].first + r); });
  float* y = c.y + vector * V::lanes;
  for (std::int64_t o = begin; o < end; ++o) {
    const TapRow row = c.rows[o];
    unroll<kStep>([&](auto i) ETALON_INLINE_LAMBDA {
      constexpr int r = kTaps - kStep + i;
      load(std::integral_constant<int, r>{}, row.first + r);
    });
    Reg sum = V::zero();
    unroll<kTaps>([&](auto r) ETALON_INLINE_LAMBDA {
      if (r >= row.begin && r < row.end)
        unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
          sum = Terms::add(taps[s], rows[r][s], weights[r * kTaps + s], sum);
        });
    });
    const std::int64_t at = o * c.out_columns;
    if constexpr (kAsks) __builtin_prefetch(y + at + c.y_ahead, 1);
    V::store(y + at, V::canonical(Terms::result(sum, c, at + vector * V::lanes, outputs)), outputs);
    unroll<kTaps - kStep>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { rows[r][s] = rows[r + kStep][s]; });
    });
  }
}

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
  unroll<kTaps * kTaps>([&](auto t) ETALON_INLINE_LAMBDA {
    weights[t] = c.w == nullptr ? V::zero() : V::set1(c.w[t]);
  });
  const std::int64_t rows = c.in_rows, end = c.out_rows;
  const float* x = c.x + vector * V::lanes - c.pad;
  std::int64_t o = c.pad_rows - 2;  // of `oldest`
  Reg oldest = V::zero(), older = V::zero(), newest = V::zero();
  const auto add = [&](auto row, Reg& sum, const Reg(&in)[kTaps]) ETALON_INLINE_LAMBDA {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
      if constexpr (kWhole)
        sum = Terms::add(in[s], weights[row * kTaps + s], sum);
      else
        sum = Terms::add(taps[s], in[s], weights[row * kTaps + s], sum);
    });
  };
  const auto load = [&](Reg(&in)[kTaps]) ETALON_INLINE_LAMBDA {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
      if constexpr (kWhole)
        in[s] = V::load(x + s);
      else
        in[s] = V::load(x + s, taps[s]);
    });
    x += c.in_columns;
  };
  const auto finish = [&]() ETALON_INLINE_LAMBDA {
    const std::int64_t at = o * c.out_columns + vector * V::lanes;
    const Reg result = V::canonical(Terms::result(oldest, c, at, outputs));
    if constexpr (kWhole)
      V::store(c.y + at, result);
    else
      V::store(c.y + at, result, outputs);
  };
  const auto pass = [&]() ETALON_INLINE_LAMBDA {
    oldest = older;
    older = newest;
    newest = V::zero();
    ++o;
  };
  constexpr std::integral_constant<int, 0> kFirst{};
  constexpr std::integral_constant<int, 1> kMiddle{};
  constexpr std::integral_constant<int, 2> kLast{};
  std::int64_t i = 0;
  for (; i < rows && o < 0; ++i) {
    Reg in[kTaps];
    load(in);
    if (o + 1 >= 0 && o + 1 < end) add(kMiddle, older, in);
    if (o + 2 < end) add(kFirst, newest, in);
    pass();
  }
  for (; i < rows && o + 2 < end; ++i) {
    Reg in[kTaps];
    load(in);
    add(kLast, oldest, in);
    add(kMiddle, older, in);
    add(kFirst, newest, in);
    finish();
    pass();
  }
  for (; i < rows && o < end; ++i) {
    Reg in[kTaps];
    load(in);
    add(kLast, oldest, in);
    if (o + 1 < end) add(kMiddle, older, in);
    finish();
    pass();
  }
  // Below the input only padding is left.
  while (o < end) {
    if (o >= 0) finish();
    pass();
  }
}

template <class V, class Terms>
void slide_rows(const TapRowsCall& call) {
  const TapRowsCall c = call;  // stores to y cannot change it
  for (std::int64_t v = 0; v * V::lanes < c.out_columns; ++v)
    c.columns[v].whole ? slide_column<V, Terms, true>(c, v) : slide_column<V, Terms, false>(c, v);
}

// kAsks: lines of the band to come are asked for, where there are several.
template <class V, class Terms, int kTaps, bool kAsks>
void step_rows(const TapRowsCall& call) {
  const TapRowsCall c = call;
  for (std::int64_t begin = 0; begin < c.out_rows; begin += c.band) {
    const std::int64_t end = begin + c.band < c.out_rows ? begin + c.band : c.out_rows;
    for (std::int64_t v = 0; v * V::lanes < c.out_columns; ++v)
      tap_column<V, Terms, kTaps, kAsks>(c, v, begin, end);
  }
}

template <class V, class Terms>
void tap_rows(const TapRowsCall& c) {
  if (c.step == 1) return slide_rows<V, Terms>(c);
  const bool asks = c.band < c.out_rows;
  if (c.taps == 3) return asks ? step_rows<V, Terms, 3, true>(c) : step_rows<V, Terms, 3, false>(c);
  asks ? step_rows<V, Terms, 5, true>(c) : step_rows<V, Terms, 5, false>(c);
}

}  // namespace etalon::simd
