// Tiles of in_place_tile.h for avx512. Sixteen registers (avx2) hold 6 rows, for which a tile in
// place would read too much for each fma.
#include <immintrin.h>

#include "kernels/conv/in_place_tile.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace etalon::avx512 {
namespace {

// From the asking for weights to their use: a line a tap.
constexpr std::int64_t kLinesAhead = 16;

// kStep: from output to output, 0 where only x_step says it and groups have one tap. kWindow: every
// group has kGroupTaps taps, so the first output's first input and the last one's last may lie in
// the padding: these are left out.
template <int R, int W, int kStep, bool kWindow, bool kLeft, bool kRight>
std::uint32_t tile(const InPlaceTileCall& t) {
  using V = F32;
  V::Reg acc[R][W];
  simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::zero(); });
  });
  const std::int64_t x_step = t.x_step, w_vector = t.w_vector;
  const float *x = t.x, *weights = t.w;
  const TapGroup* group = t.groups;
  const float* next = t.next_step == 0 ? t.w : t.next;
  const std::int64_t next_step = t.next_step;
  const auto add = [&](auto taps) ETALON_INLINE_LAMBDA {
    constexpr int kTaps = taps;
    V::Reg wv[kTaps][W];
    simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      const float* from = weights + group->w + w * w_vector;
      simd::unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
        _mm_prefetch(reinterpret_cast<const char*>(from + (s + kLinesAhead) * V::lanes),
                     _MM_HINT_T0);
        wv[s][w] = V::load(from + s * V::lanes);
      });
    });
    const float* first = x + group->x;
    if constexpr (kStep == 0) {
      // Four outputs to a pointer, so that the addresses fit the registers.
      const std::int64_t within[4] = {0, x_step, 2 * x_step, 3 * x_step};
      const float* from = first;
      simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        if constexpr (r != 0 && r % 4 == 0) from += 4 * x_step;
        const V::Reg xv = V::set1(from[within[r % 4]]);
        simd::unroll<W>([&](auto w)
                            ETALON_INLINE_LAMBDA { acc[r][w] = V::fma(xv, wv[0][w], acc[r][w]); });
      });
    } else {
      constexpr int kInputs = (R - 1) * kStep + kTaps;
      simd::unroll<kInputs>([&](auto j) ETALON_INLINE_LAMBDA {
        if constexpr (!(kLeft && j == 0) && !(kRight && j == kInputs - 1)) {
          const V::Reg xv = V::set1(first[j]);
          simd::unroll<kTaps>([&](auto s) ETALON_INLINE_LAMBDA {
            if constexpr (j >= s && (j - s) % kStep == 0 && (j - s) / kStep < R) {
              constexpr int r = (j - s) / kStep;
              simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
                acc[r][w] = V::fma(xv, wv[s][w], acc[r][w]);
              });
            }
          });
        }
      });
    }
  };
  for (std::int64_t k = 0; k < t.count; ++k, ++group) {
    _mm_prefetch(reinterpret_cast<const char*>(next), _MM_HINT_T1);
    next += next_step;
    _mm_prefetch(reinterpret_cast<const char*>(x + group[kGroupsAhead].x), _MM_HINT_T0);
    if constexpr (kStep == 0) {
      add(std::integral_constant<int, 1>{});
    } else if constexpr (kWindow) {
      add(std::integral_constant<int, kGroupTaps>{});
    } else {
      if (group->taps == 3)
        add(std::integral_constant<int, 3>{});
      else if (group->taps == 2)
        add(std::integral_constant<int, 2>{});
      else
        add(std::integral_constant<int, 1>{});
    }
  }
  const V::Mask last = V::first(t.last_lanes);
  std::uint32_t zero_rows = 0;
  if (t.report_zero)
    simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      std::uint32_t zero = 0;
      simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
        std::uint32_t z = V::to_bits(V::is_zero(acc[r][w]));
        if constexpr (w == W - 1) z &= V::to_bits(last);
        zero |= z;
      });
      if (zero != 0) zero_rows |= 1U << r;
    });
  if (t.bias != nullptr)
    simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      const V::Reg bias =
          w == W - 1 ? V::load(t.bias + w * V::lanes, last) : V::load(t.bias + w * V::lanes);
      simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { acc[r][w] = V::add(acc[r][w], bias); });
    });
  simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      V::store(t.y + r * t.y_row + w * V::lanes, V::canonical(acc[r][w]));
    });
  });
  return zero_rows;
}

}  // namespace

const InPlaceTiles& in_place_tiles() {
  static const InPlaceTiles tiles = [] {
    InPlaceTiles all{};
    simd::unroll<kInPlaceSingle - kInPlaceLeast + 1>([&](auto i) {
      constexpr int rows = kInPlaceLeast + i;
      simd::unroll<rows <= kInPlaceRows ? 2 : 1>([&](auto v) {
        constexpr int vectors = v + 1;
        simd::unroll<kInPlaceSteps + 1>([&](auto step) {
          all.any[step][vectors][rows] = tile<rows, vectors, step, false, false, false>;
        });
        if constexpr (rows <= kInPlaceRows)
          simd::unroll<2>([&](auto left) {
            all.window[1][left][0][vectors][rows] = tile<rows, vectors, 1, true, left, false>;
            all.window[1][left][1][vectors][rows] = tile<rows, vectors, 1, true, left, true>;
            all.window[2][left][0][vectors][rows] = tile<rows, vectors, 2, true, left, false>;
          });
      });
    });
    return all;
  }();
  return tiles;
}

void store_square(const float* c, std::int64_t c_row, float* y, std::int64_t y_stride) {
  F32::Reg square[F32::lanes];
  simd::unroll<F32::lanes>([&](auto i)
                               ETALON_INLINE_LAMBDA { square[i] = F32::load(c + i * c_row); });
  F32::transpose(square);
  simd::unroll<F32::lanes>([&](auto i)
                               ETALON_INLINE_LAMBDA { F32::store(y + i * y_stride, square[i]); });
}

}  // namespace etalon::avx512
