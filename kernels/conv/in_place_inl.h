// Tiles of in_place_tile.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "kernels/conv/in_place_tile.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// With registers for the weights of a group beside the accumulators, an input is broadcast once for
// all taps that it is under; with sixteen in all once for each: 8 loads for 12 fma then, where the
// ports take twice as many.
template <class V>
inline constexpr bool kSharesInputs = V::registers >= 32;

// From the asking for weights to their use.
inline constexpr std::int64_t kTapsAhead = 16;

template <class V, int W>
ETALON_INLINE void ask_weights(const float* at, std::int64_t w_vector) {
  unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
    _mm_prefetch(reinterpret_cast<const char*>(at + w * w_vector + kTapsAhead * V::lanes),
                 _MM_HINT_T0);
  });
}

// A group of kTaps taps, x from output to output a constant. Of the inputs under them the first
// kBefore and the last kAfter are padding, which is left out.
template <class V, int R, int W, int kStep, int kTaps, int kBefore = 0, int kAfter = 0>
ETALON_INLINE void add_group(typename V::Reg (&acc)[R][W], const float* x, const float* weights,
                             std::int64_t w_vector) {
  using Reg = typename V::Reg;
  constexpr int kInputs = (R - 1) * kStep + kTaps;
  if constexpr (kSharesInputs<V>) {
    Reg wv[kTaps][W];
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
      ask_weights<V, W>(weights + s * V::lanes, w_vector);
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        wv[s][w] = V::load(weights + w * w_vector + s * V::lanes);
      });
    });
    unroll<kInputs>([&](auto j) ETALON_INLINE_LAMBDA {
      if constexpr (j >= kBefore && j < kInputs - kAfter) {
        const Reg xv = V::set1(x[j]);
        unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
          if constexpr (j >= s && (j - s) % kStep == 0 && (j - s) / kStep < R) {
            constexpr int r = (j - s) / kStep;
            unroll<W>([&](auto w)
                          ETALON_INLINE_LAMBDA { acc[r][w] = V::fma(xv, wv[s][w], acc[r][w]); });
          }
        });
      }
    });
  } else {
    unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
      // Two vectors to a line.
      if constexpr (s % 2 == 0) ask_weights<V, W>(weights + s * V::lanes, w_vector);
      // Or a compiler keeps what it broadcast for the tap before, and accumulators go to memory.
      asm volatile("" ::: "memory");
      Reg wv[W];
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        wv[w] = V::load(weights + w * w_vector + s * V::lanes);
      });
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        constexpr int j = r * kStep + s;
        if constexpr (j >= kBefore && j < kInputs - kAfter) {
          const Reg xv = V::set1(x[j]);
          unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { V::fma_onto(acc[r][w], xv, wv[w]); });
        }
      });
    });
  }
}

// One tap, x from output to output as the call says.
template <class V, int R, int W>
ETALON_INLINE void add_tap(typename V::Reg (&acc)[R][W], const float* x, std::int64_t x_step,
                           const float* weights, std::int64_t w_vector) {
  typename V::Reg wv[W];
  ask_weights<V, W>(weights, w_vector);
  unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { wv[w] = V::load(weights + w * w_vector); });
  // Four outputs to a pointer, so that the addresses fit the registers.
  const std::int64_t within[4] = {0, x_step, 2 * x_step, 3 * x_step};
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    if constexpr (r != 0 && r % 4 == 0) x += 4 * x_step;
    const typename V::Reg xv = V::set1(x[within[r % 4]]);
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { V::fma_onto(acc[r][w], xv, wv[w]); });
  });
}

// A group of a window of kColumns, or of any.
template <class V, int R, int W, int kStep, int kColumns, bool kLeft, bool kRight>
ETALON_INLINE void add_taps(typename V::Reg (&acc)[R][W], int taps, const float* x, const float* w,
                            std::int64_t w_vector) {
  if constexpr (kColumns == 3) {
    add_group<V, R, W, kStep, 3, kLeft, kRight>(acc, x, w, w_vector);
  } else if constexpr (kColumns == 5) {
    // Padding to the left is under the first three taps alone, to the right under the other two.
    if (taps == 3)
      add_group<V, R, W, kStep, 3, kLeft ? 2 : 0, 0>(acc, x, w, w_vector);
    else
      add_group<V, R, W, kStep, 2, 0, kRight ? 2 : 0>(acc, x, w, w_vector);
  } else {
    if (taps == 3)
      add_group<V, R, W, kStep, 3>(acc, x, w, w_vector);
    else if (taps == 2)
      add_group<V, R, W, kStep, 2>(acc, x, w, w_vector);
    else
      add_group<V, R, W, kStep, 1>(acc, x, w, w_vector);
  }
}

// f(columns, left, right) as constants: a loop for each, in one tile.
template <int kStep, class F>
ETALON_INLINE void with_ends(const InPlaceTileCall& t, F f) {
  constexpr std::integral_constant<int, 3> kThree;
  constexpr std::integral_constant<int, 5> kFive;
  const auto either = [](bool value, auto g) ETALON_INLINE_LAMBDA {
    value ? g(std::true_type{}) : g(std::false_type{});
  };
  if (t.columns == 0)
    return f(std::integral_constant<int, 0>{}, std::false_type{}, std::false_type{});
  either(t.left, [&](auto left) ETALON_INLINE_LAMBDA {
    if constexpr (kStep == 2)
      f(kThree, left, std::false_type{});
    else
      either(t.right, [&](auto right) ETALON_INLINE_LAMBDA {
        t.columns == 3 ? f(kThree, left, right) : f(kFive, left, right);
      });
  });
}

// kStep: from output to output, 0 where only x_step says it and groups have one tap. kEnds: whether
// the call may leave padding out.
template <class V, int R, int W, int kStep, bool kEnds>
std::uint32_t in_place_tile(const InPlaceTileCall& t) {
  typename V::Reg acc[R][W];
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      acc[r][w] = t.resume ? V::load(t.y + r * t.y_row + w * V::lanes) : V::zero();
    });
  });
  if (t.ask_outputs)
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        const float* line = t.y + r * t.y_row + w * V::lanes;
        asm volatile("prefetchw %0" : : "m"(*line));
      });
    });
  const std::int64_t x_step = t.x_step, w_vector = t.w_vector;
  const float *x = t.x, *weights = t.w;
  const float* next = t.next_step == 0 ? t.w : t.next;
  const std::int64_t next_step = t.next_step;
  const auto walk = [&](auto add) ETALON_INLINE_LAMBDA {
    const TapGroup* group = t.groups;
    for (std::int64_t k = 0; k < t.count; ++k, ++group) {
      _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
      next += next_step;
      _mm_prefetch(reinterpret_cast<const char*>(x + group[kGroupsAhead].x), _MM_HINT_T0);
      add(group->taps, x + group->x, weights + group->w);
    }
  };
  const auto walk_ends = [&](auto columns, auto left, auto right) ETALON_INLINE_LAMBDA {
    walk([&](int taps, const float* from, const float* w) ETALON_INLINE_LAMBDA {
      add_taps<V, R, W, kStep, columns, left, right>(acc, taps, from, w, w_vector);
    });
  };
  if constexpr (kStep == 0)
    walk([&](int, const float* from, const float* w)
             ETALON_INLINE_LAMBDA { add_tap<V>(acc, from, x_step, w, w_vector); });
  else if constexpr (kEnds)
    with_ends<kStep>(t, walk_ends);
  else
    walk_ends(std::integral_constant<int, 0>{}, std::false_type{}, std::false_type{});
  const typename V::Mask last = V::first(t.last_lanes);
  std::uint32_t zero_rows = 0;
  if (t.report_zero)
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      std::uint32_t zero = 0;
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        std::uint32_t z = V::to_bits(V::is_zero(acc[r][w]));
        if constexpr (w == W - 1) z &= V::to_bits(last);
        zero |= z;
      });
      if (zero != 0) zero_rows |= 1U << r;
    });
  if (t.bias != nullptr)
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      const typename V::Reg bias =
          w == W - 1 ? V::load(t.bias + w * V::lanes, last) : V::load(t.bias + w * V::lanes);
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { acc[r][w] = V::add(acc[r][w], bias); });
    });
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      V::store(t.y + r * t.y_row + w * V::lanes, V::canonical(acc[r][w]));
    });
  });
  return zero_rows;
}

template <class V>
void store_square(const float* c, std::int64_t c_row, float* y, std::int64_t y_stride) {
  typename V::Reg square[V::lanes];
  unroll<V::lanes>([&](auto i) ETALON_INLINE_LAMBDA { square[i] = V::load(c + i * c_row); });
  V::transpose(square);
  unroll<V::lanes>([&](auto i) ETALON_INLINE_LAMBDA { V::store(y + i * y_stride, square[i]); });
}

// Of three vectors that follow each other, the elements of channel c stand in lanes of their own,
// since three has an inverse modulo the lanes: they are taken into one vector, which is put in
// order.
template <class V>
struct ThreeChannels {
  std::array<std::array<std::uint32_t, 3>, 3> lanes{};  // [channel][vector], as bits
  std::array<std::array<std::int32_t, V::lanes>, 3> order{};

  constexpr ThreeChannels() {
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < V::lanes; ++i) {
        const int at = 3 * i + c;
        lanes[c][at / V::lanes] |= 1U << at % V::lanes;
        order[c][i] = at % V::lanes;
      }
  }
};

template <class V>
void split_three(const float* x, std::int64_t count, float* rows, std::int64_t stride) {
  static constexpr ThreeChannels<V> kThree;
  if (count < V::lanes) {
    for (std::int64_t i = 0; i < count; ++i)
      for (std::int64_t c = 0; c < 3; ++c) rows[c * stride + i] = x[3 * i + c];
    return;
  }
  for (std::int64_t i = 0; i < count; i += V::lanes) {
    // The last pixels with some of those before once more.
    const std::int64_t first = i + V::lanes <= count ? i : count - V::lanes;
    typename V::Reg part[3];
    unroll<3>([&](auto v)
                  ETALON_INLINE_LAMBDA { part[v] = V::load(x + 3 * first + v * V::lanes); });
    unroll<3>([&](auto c) ETALON_INLINE_LAMBDA {
      const typename V::Reg one =
          V::select(V::from_bits(kThree.lanes[c][2]), part[2],
                    V::select(V::from_bits(kThree.lanes[c][1]), part[1], part[0]));
      V::store(rows + c * stride + first, V::permute(one, kThree.order[c].data()));
    });
  }
}

// Tiles of kLeast to kTwo outputs by one and two vectors, of one vector to kOne, and of three to
// kThree.
template <class V, int kLeast, int kOne, int kTwo, int kThree>
InPlaceTiles in_place_tiles_of() {
  InPlaceTiles all{};
  all.rows = {0, kOne, kTwo, kThree};
  all.square = store_square<V>;
  all.three = split_three<V>;
  unroll<kOne - kLeast + 1>([&](auto i) {
    constexpr int rows = kLeast + i;
    unroll<rows <= kThree ? 3
           : rows <= kTwo ? 2
                          : 1>([&](auto v) {
      constexpr int vectors = v + 1;
      unroll<kInPlaceSteps + 1>([&](auto step) {
        constexpr bool leaves_out = step != 0 && kTwo >= rows;
        all.of[step][vectors][rows] = in_place_tile<V, rows, vectors, step, leaves_out>;
      });
    });
  });
  return all;
}

}  // namespace etalon::simd
