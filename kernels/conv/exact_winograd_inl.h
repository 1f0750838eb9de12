// kernels/conv/exact_winograd.h over a vector type V (kernels/gemm/exact_vector_*.h); included only
// by the files of one instruction set each.
#pragma once

#include <immintrin.h>

#include "kernels/conv/exact_winograd.h"
#include "kernels/gemm/tile_inl.h"
#include "kernels/simd/least_part.h"

namespace etalon::simd {

// Two additions a pass, as the bound has it; halves are exact.
template <class V>
void winograd_weights(const float* g, std::int64_t count, double* to, std::int64_t stride) {
  using Reg = typename V::Reg;
  const Reg half = V::set1(0.5), minus = V::set1(-0.5);
  const auto pass = [&](Reg a, Reg b, Reg c, auto put) ETALON_INLINE_LAMBDA {
    const Reg outer = V::mul(half, V::add(a, c));
    put(0, a);
    put(1, V::fma(half, b, outer));
    put(2, V::fma(minus, b, outer));
    put(3, c);
  };
  for (std::int64_t i = 0; i < count; i += V::lanes) {
    Reg columns[kPatch][3];
    unroll<3>([&](auto j) ETALON_INLINE_LAMBDA {
      const float* at = g + j * count + i;
      pass(V::widen(at), V::widen(at + 3 * count), V::widen(at + 6 * count),
           [&](int row, Reg x) ETALON_INLINE_LAMBDA { columns[row][j] = x; });
    });
    unroll<kPatch>([&](auto row) ETALON_INLINE_LAMBDA {
      double* at = to + row * kPatch * stride + i;
      pass(columns[row][0], columns[row][1], columns[row][2],
           [&](int column, Reg x) ETALON_INLINE_LAMBDA { V::store(at + column * stride, x); });
    });
  }
}

template <class V>
void winograd_input(const float* const (*patch)[kPatch], double* to, std::int64_t stride,
                    double* squares) {
  using Reg = typename V::Reg;
  Reg d[kPatch][kPatch];
  unroll<kPatch>([&](auto i) ETALON_INLINE_LAMBDA {
    unroll<kPatch>([&](auto j) ETALON_INLINE_LAMBDA { d[i][j] = V::widen(patch[i][j]); });
  });
  // Sums of squares by n(i) n(j): 1, 3, 9.
  Reg q[3] = {V::zero(), V::zero(), V::zero()};
  unroll<kPatch>([&](auto i) ETALON_INLINE_LAMBDA {
    unroll<kPatch>([&](auto j) ETALON_INLINE_LAMBDA {
      constexpr int n = (i == 1 || i == 2) + (j == 1 || j == 2);
      q[n] = V::fma(d[i][j], d[i][j], q[n]);
    });
  });
  const Reg three = V::set1(3);
  V::store(squares, V::add(V::load(squares), V::fma(three, V::fma(three, q[2], q[1]), q[0])));
  unroll<kPatch>([&](auto j) ETALON_INLINE_LAMBDA {
    const Reg t0 = V::sub(d[0][j], d[2][j]), t1 = V::add(d[1][j], d[2][j]),
              t2 = V::sub(d[2][j], d[1][j]), t3 = V::sub(d[1][j], d[3][j]);
    d[0][j] = t0;
    d[1][j] = t1;
    d[2][j] = t2;
    d[3][j] = t3;
  });
  unroll<kPatch>([&](auto i) ETALON_INLINE_LAMBDA {
    double* row = to + i * kPatch * stride;
    V::store(row, V::sub(d[i][0], d[i][2]));
    V::store(row + stride, V::add(d[i][1], d[i][2]));
    V::store(row + 2 * stride, V::sub(d[i][2], d[i][1]));
    V::store(row + 3 * stride, V::sub(d[i][1], d[i][3]));
  });
}

template <class V>
void winograd_output(const double* m, std::int64_t stride, double bias, double factor,
                     const double* norms, float* y, std::uint32_t* undecided) {
  using Reg = typename V::Reg;
  Reg row[2][kPatch];
  unroll<kPatch>([&](auto j) ETALON_INLINE_LAMBDA {
    const Reg m0 = V::load(m + j * stride), m1 = V::load(m + (kPatch + j) * stride),
              m2 = V::load(m + (2 * kPatch + j) * stride),
              m3 = V::load(m + (3 * kPatch + j) * stride);
    row[0][j] = V::add(V::add(m0, m1), m2);
    row[1][j] = V::sub(V::sub(m1, m2), m3);
  });
  const Reg e = V::mul(V::set1(factor), V::load(norms)), added = V::set1(bias),
            addition = V::set1(0x1p-51);
  unroll<2>([&](auto i) ETALON_INLINE_LAMBDA {
    const Reg both[2] = {V::add(V::add(V::add(row[i][0], row[i][1]), row[i][2]), added),
                         V::add(V::sub(V::sub(row[i][1], row[i][2]), row[i][3]), added)};
    typename V::Narrow low[2];
    std::uint32_t open = 0;
    unroll<2>([&](auto c) ETALON_INLINE_LAMBDA {
      const Reg all = V::fma(addition, V::abs(both[c]), e);
      low[c] = V::narrow(V::sub(both[c], all));
      std::uint32_t u = ~V::same(low[c], V::narrow(V::add(both[c], all)));
      // Bits of lanes two apart.
      u &= (1U << V::lanes) - 1;
      u = (u | u << 4) & 0x0f0f;
      u = (u | u << 2) & 0x3333;
      u = (u | u << 1) & 0x5555;
      open |= u << c;
    });
    V::store_pairs(y + i * 2 * V::lanes, low[0], low[1]);
    undecided[i] = open;
  });
}

template <class V, int R, int W>
void winograd_sums(const WinogradSums& t) {
  using Reg = typename V::Reg;
  Reg acc[R][W];
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::zero(); });
  });
  const double *u = t.u, *v = t.v;
  const double* next = t.next_step == 0 ? t.u : t.next;
  const std::int64_t channels = t.channels, v_vector = t.v_vector, next_step = t.next_step;
  const auto ask = [&]() ETALON_INLINE_LAMBDA {
    _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    _mm_prefetch(reinterpret_cast<const char*>(next + 8), _MM_HINT_T1);
    next += next_step;
  };
  std::int64_t c = 0;
  if constexpr (kHalfLines<V>) {
    // Four at a time, for the reasons of quick_steps (kernels/gemm/tile_inl.h).
    constexpr int kSteps = 4;
    for (; c + kSteps <= channels; c += kSteps, u += kSteps * R, v += kSteps * V::lanes)
      unroll<kSteps>([&](auto i) ETALON_INLINE_LAMBDA {
        if constexpr (i % 2 == 0) ask();
        Reg bv[W];
        unroll<W>([&](auto w)
                      ETALON_INLINE_LAMBDA { bv[w] = V::load(v + w * v_vector + i * V::lanes); });
        unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
          const Reg av = V::set1(u[i * R + r]);
          unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { V::fma_onto(acc[r][w], av, bv[w]); });
        });
      });
  }
  for (; c < channels; ++c, u += R, v += V::lanes) {
    ask();
    Reg bv[W];
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      const double* at = v + w * v_vector;
      _mm_prefetch(reinterpret_cast<const char*>(at + kAheadSteps * V::lanes), _MM_HINT_T0);
      bv[w] = V::load(at);
    });
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { fma_row<V, R, W, r>(acc, u + r, bv); });
  }
  const auto each = [&](auto f) ETALON_INLINE_LAMBDA {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w)
                    ETALON_INLINE_LAMBDA { f(acc[r][w], t.m + r * t.m_row + w * V::lanes); });
    });
  };
  if (t.join)
    each([](Reg& sum, const double* m) ETALON_INLINE_LAMBDA { sum = V::add(V::load(m), sum); });
  each([](Reg& sum, double* m) ETALON_INLINE_LAMBDA { V::store(m, sum); });
}

template <class V>
WinogradLanes make_winograd_lanes() {
  constexpr int rows = max_rows<V>(2), least = least_part(kWinogradChannels, rows);
  WinogradLanes set{.lanes = V::lanes,
                    .rows = rows,
                    .weights = winograd_weights<V>,
                    .input = winograd_input<V>,
                    .output = winograd_output<V>};
  unroll<rows - least + 1>([&](auto i) {
    set.sums[1][least + i] = winograd_sums<V, least + i, 1>;
    set.sums[2][least + i] = winograd_sums<V, least + i, 2>;
  });
  return set;
}

}  // namespace etalon::simd
