// Tiles of in_place_tile.h for avx512. Sixteen registers (avx2) hold 6 rows, for which a tile in
// place would read too much for each fma.
#include <immintrin.h>

#include "kernels/conv/in_place_tile.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/unroll.h"

namespace etalon::avx512 {
namespace {

template <int R, int W>
std::uint32_t tile(const InPlaceTileCall& t) {
  using V = F32;
  V::Reg acc[R][W];
  simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::zero(); });
  });
  // Four rows to a pointer, so that the addresses fit the registers.
  constexpr int kGroups = (R + 3) / 4;
  const std::int64_t within[4] = {0, t.x_step, 2 * t.x_step, 3 * t.x_step};
  const std::int64_t x_step = t.x_step, w_vector = t.w_vector;
  const float *x = t.x, *weights = t.w;
  const TapStep* step = t.steps;
  for (std::int64_t k = 0; k < t.k; ++k, ++step) {
    V::Reg wv[W];
    simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
      const float* from = weights + step->w + w * w_vector;
      _mm_prefetch(reinterpret_cast<const char*>(from + kStepsAhead * V::lanes), _MM_HINT_T0);
      wv[w] = V::load(from);
    });
    const float* first = x + step->x;
    _mm_prefetch(reinterpret_cast<const char*>(x + step[kStepsAhead].x), _MM_HINT_T0);
    const float* group[kGroups];
    simd::unroll<kGroups>([&](auto i) ETALON_INLINE_LAMBDA { group[i] = first + 4 * i * x_step; });
    simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      const V::Reg xv = V::set1(group[r / 4][within[r % 4]]);
      simd::unroll<W>([&](auto w)
                          ETALON_INLINE_LAMBDA { acc[r][w] = V::fma(xv, wv[w], acc[r][w]); });
    });
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
    simd::unroll<kInPlaceRows>([&](auto r) {
      all[1][r + 1] = tile<r + 1, 1>;
      all[2][r + 1] = tile<r + 1, 2>;
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
