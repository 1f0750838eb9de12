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
  ETALON_INLINE static Reg result(Reg sum, const TapRowsCall& c, std::int64_t at,
                                  typename V::Mask m) {
    return V::div(sum, V::load(c.divisor + at, m));
  }
};

template <class V, class Terms, int kTaps>
void tap_column(const TapRowsCall& c, std::int64_t vector) {
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
  unroll<kTaps - kStep>([&](auto r) ETALON_INLINE_LAMBDA { load(r, c.rows[0].first + r); });
  float* y = c.y + vector * V::lanes;
  for (std::int64_t o = 0; o < c.out_rows; ++o) {
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
    V::store(y + at, V::canonical(Terms::result(sum, c, at + vector * V::lanes, outputs)), outputs);
    unroll<kTaps - kStep>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA { rows[r][s] = rows[r + kStep][s]; });
    });
  }
}

template <class V, class Terms>
void tap_rows(const TapRowsCall& call) {
  const TapRowsCall c = call;  // stores to y cannot change it
  for (std::int64_t v = 0; v * V::lanes < c.out_columns; ++v)
    c.taps == 3 ? tap_column<V, Terms, 3>(c, v) : tap_column<V, Terms, 5>(c, v);
}

}  // namespace etalon::simd
