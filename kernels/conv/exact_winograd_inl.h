// kernels/conv/exact_winograd.h over a vector type V (kernels/gemm/exact_vector_*.h); included only
// by the files of one instruction set each.
#pragma once

#include <immintrin.h>

#include "kernels/conv/exact_winograd.h"
#include "kernels/gemm/exact_open_inl.h"
#include "kernels/gemm/tile_inl.h"
#include "kernels/simd/least_part.h"

namespace etalon::simd {

// Passes over one axis, with no more roundings than make_winograd_form counts. A pair of points p,
// -p shares its sums of even and of odd powers.
template <class V>
struct WinogradPass {
  using Reg = typename V::Reg;
  // put(p, row p of B^T d).
  template <int P, class Put>
  ETALON_INLINE static void input(const Reg* d, const Put& put) {
    static_assert(P == 4 || P == 6);
    if constexpr (P == 4) {
      put(0, V::sub(d[2], d[0]));
      put(1, V::add(d[2], d[1]));
      put(2, V::sub(d[2], d[1]));
      put(3, V::sub(d[3], d[1]));
    } else {
      const Reg quarter = V::set1(0.25), five = V::set1(-1.25), half = V::set1(0.5);
      const Reg even = V::fma(V::set1(-0.25), d[2], d[4]), odd = V::fma(V::set1(-0.25), d[1], d[3]),
                even_half = V::sub(d[4], d[2]), odd_half = V::sub(d[3], d[1]);
      put(0, V::fma(quarter, d[0], V::fma(five, d[2], d[4])));
      put(1, V::add(even, odd));
      put(2, V::sub(even, odd));
      put(3, V::fma(half, odd_half, even_half));
      put(4, V::fma(V::set1(-0.5), odd_half, even_half));
      put(5, V::fma(quarter, d[1], V::fma(five, d[3], d[5])));
    }
  }

  // put(p, row p of G g).
  template <const WinogradForm& form, class Put>
  ETALON_INLINE static void weights(const Reg* g, const Put& put) {
    put(0, V::mul(V::set1(form.g[0][0]), g[0]));  // a power of two
    unroll<(form.patch - 2) / 2>([&](auto pair) ETALON_INLINE_LAMBDA {
      constexpr int point = 1 + 2 * pair;
      constexpr double over = form.g[point][0];
      Reg even = g[0], odd = V::mul(V::set1(kWinogradPoints[point]), g[1]);  // exact
      unroll<form.taps - 2>([&](auto j) ETALON_INLINE_LAMBDA {
        constexpr int tap = j + 2;
        constexpr double power = point_power(point, tap);
        Reg& sum = tap % 2 == 0 ? even : odd;
        sum = V::fma(V::set1(power), g[tap], sum);
      });
      put(point, V::mul(V::set1(over), V::add(even, odd)));
      put(point + 1, V::mul(V::set1(over), V::sub(even, odd)));
    });
    put(form.patch - 1, g[form.taps - 1]);
  }

  // put(i, row i of A^T m).
  template <const WinogradForm& form, class Put>
  ETALON_INLINE static void output(const Reg* m, const Put& put) {
    constexpr int pairs = (form.patch - 2) / 2;
    Reg sum[pairs], difference[pairs];
    unroll<pairs>([&](auto pair) ETALON_INLINE_LAMBDA {
      sum[pair] = V::add(m[1 + 2 * pair], m[2 + 2 * pair]);
      difference[pair] = V::sub(m[1 + 2 * pair], m[2 + 2 * pair]);
    });
    unroll<form.outputs>([&](auto i) ETALON_INLINE_LAMBDA {
      Reg y = i % 2 == 0 ? sum[0] : difference[0];
      unroll<pairs - 1>([&](auto pair) ETALON_INLINE_LAMBDA {
        constexpr double power = point_power(3 + 2 * pair, i);
        const Reg& x = i % 2 == 0 ? sum[pair + 1] : difference[pair + 1];
        y = power == 1 ? V::add(y, x) : V::fma(V::set1(power), x, y);
      });
      constexpr double end = winograd_end(form.patch);
      static_assert(form.outputs > 1);
      if constexpr (i == 0 || i == form.outputs - 1) {
        const Reg& last = m[i == 0 ? 0 : form.patch - 1];
        put(i, end == 1 ? V::add(y, last) : V::fma(V::set1(end), y, last));
      } else {
        put(i, end == 1 ? y : V::mul(V::set1(end), y));
      }
    });
  }
};

template <class V, const WinogradForm& form>
void winograd_weights(const float* g, std::int64_t count, double* to, std::int64_t stride) {
  using Reg = typename V::Reg;
  constexpr int R = form.taps, P = form.patch;
  for (std::int64_t i = 0; i < count; i += V::lanes) {
    Reg half[P][R];
    unroll<R>([&](auto j) ETALON_INLINE_LAMBDA {
      Reg column[R];
      unroll<R>([&](auto tap) ETALON_INLINE_LAMBDA {
        column[tap] = V::widen(g + (tap * R + j) * count + i);
      });
      WinogradPass<V>::template weights<form>(
          column, [&](int row, Reg x) ETALON_INLINE_LAMBDA { half[row][j] = x; });
    });
    unroll<P>([&](auto row) ETALON_INLINE_LAMBDA {
      double* at = to + row * P * stride + i;
      WinogradPass<V>::template weights<form>(
          half[row], [&](int p, Reg x) ETALON_INLINE_LAMBDA { V::store(at + p * stride, x); });
    });
  }
}

template <class V, const WinogradForm& form>
void winograd_input(const float* from, const std::int64_t* patch, double* to, std::int64_t stride,
                    double* squares) {
  using Reg = typename V::Reg;
  constexpr int P = form.patch;
  Reg half[P][P];  // half[p][i]: row i of the patch, transformed
  Reg square = V::load(squares), sizes = V::load(squares + V::lanes);
  unroll<P>([&](auto i) ETALON_INLINE_LAMBDA {
    Reg d[P], sum = V::zero();
    unroll<P>([&](auto j) ETALON_INLINE_LAMBDA {
      d[j] = V::widen(from + patch[i * P + j]);
      sum = V::fma(V::mul(V::set1(form.squares[j]), d[j]), d[j], sum);
    });
    sizes = V::fma(V::set1(form.squares[i]), sum, sizes);
    WinogradPass<V>::template input<P>(d,
                                       [&](int p, Reg x) ETALON_INLINE_LAMBDA { half[p][i] = x; });
  });
  unroll<P>([&](auto column) ETALON_INLINE_LAMBDA {
    WinogradPass<V>::template input<P>(half[column], [&](int p, Reg x) ETALON_INLINE_LAMBDA {
      V::store(to + (p * P + column) * stride, x);
      square = V::fma(x, x, square);
    });
  });
  V::store(squares, square);
  V::store(squares + V::lanes, sizes);
}

// Bit i of `bits` to bit m * i.
template <int m>
ETALON_INLINE std::uint32_t spread(std::uint32_t bits) {
  static_assert(m >= 2 && m <= 4);
  if constexpr (m == 2) {
    bits = (bits | bits << 4) & 0x0f0f;
    bits = (bits | bits << 2) & 0x3333;
    return (bits | bits << 1) & 0x5555;
  } else if constexpr (m == 3) {
    bits = (bits | bits << 8) & 0x00f00f;
    bits = (bits | bits << 4) & 0x0c30c3;
    return (bits | bits << 2) & 0x249249;
  } else {
    bits = (bits | bits << 12) & 0x000f000f;
    bits = (bits | bits << 6) & 0x03030303;
    return (bits | bits << 3) & 0x11111111;
  }
}

template <class V, const WinogradForm& form>
void winograd_output(const double* sums, std::int64_t stride, double bias, const double* factors,
                     const double* norms, const ExactCells* cells, float* y, std::int64_t y_row,
                     std::uint32_t* undecided) {
  using Reg = typename V::Reg;
  constexpr int P = form.patch, M = form.outputs;
  Reg half[M][P];
  unroll<P>([&](auto j) ETALON_INLINE_LAMBDA {
    Reg column[P];
    unroll<P>([&](auto p)
                  ETALON_INLINE_LAMBDA { column[p] = V::load(sums + (p * P + j) * stride); });
    WinogradPass<V>::template output<form>(
        column, [&](int i, Reg x) ETALON_INLINE_LAMBDA { half[i][j] = x; });
  });
  const Reg norm = V::load(norms), size = V::load(norms + V::lanes), added = V::set1(bias),
            addition = V::set1(0x1p-51);
  unroll<M>([&](auto i) ETALON_INLINE_LAMBDA {
    typename V::Narrow low[M];
    std::uint32_t open = 0;
    WinogradPass<V>::template output<form>(half[i], [&](int c, Reg sum) ETALON_INLINE_LAMBDA {
      const Reg t = V::add(sum, added),
                bound = V::fma(V::set1(factors[i * M + c]), norm,
                               V::mul(V::set1(factors[M * M + i * M + c]), size)),
                e = V::fma(addition, V::abs(t), bound);
      low[c] = V::narrow(V::sub(t, e));
      open |= spread<M>(exact_open<V>(low[c], V::narrow(V::add(t, e)), cells)) << c;
    });
    V::template store_turned<M>(y + i * y_row, low);
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
  WinogradLanes set{.lanes = V::lanes, .rows = rows};
  unroll<rows - least + 1>([&](auto i) {
    set.sums[1][least + i] = winograd_sums<V, least + i, 1>;
    set.sums[2][least + i] = winograd_sums<V, least + i, 2>;
  });
  unroll<kWinogradFormCount>([&](auto i) {
    constexpr const WinogradForm& form = kWinogradForms[i];
    set.transforms[i] = {.weights = winograd_weights<V, form>,
                         .input = winograd_input<V, form>,
                         .output = winograd_output<V, form>};
  });
  return set;
}

}  // namespace etalon::simd
