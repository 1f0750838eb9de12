// kernels/gemm/digit_tile.h on AMX int8 tiles: products, and what joins and rounds their levels.
// Digits are cut in digit_pack_amx.cpp.
//
// A product takes 16 cycles to issue and about 52 to finish, so products into one accumulator lie
// three or more apart, and each step of the order changes one operand: 20 tile loads (8 cycles
// each, from L1) hide behind 19 products.
#include <immintrin.h>

#include "kernels/gemm/digit_set_amx.h"
#include "kernels/gemm/digit_vector_amx.h"

namespace etalon::amx {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

void begin(int rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.bytes[t] = kDigitStep;
    config.rows[t] = static_cast<std::uint8_t>(t == 7 ? kDigitRows : rows);
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

void end() { _tile_release(); }

// --- rounding

// Levels of one block of k as f64 sums, eight outputs at a time; see digit_tile.h.
template <int t>
ETALON_INLINE __m512d joined(const std::int32_t* levels, int at) {
  constexpr int count = 9 - t, plane = kDigitRows * kDigitRows;
  constexpr double weight[9] = {0x1p0,  0x1p8,  0x1p16, 0x1p24, 0x1p32,
                                0x1p40, 0x1p48, 0x1p56, 0x1p64};
  const auto level = [&](int l) ETALON_INLINE_LAMBDA {
    return _mm512_cvtepi32_pd(
        _mm256_load_si256(reinterpret_cast<const __m256i*>(levels + l * plane + at)));
  };
  __m512d s = _mm512_mul_pd(level(0), _mm512_set1_pd(weight[t]));
  simd::unroll<count - 1>([&](auto l) ETALON_INLINE_LAMBDA {
    s = _mm512_fmadd_pd(level(l + 1), _mm512_set1_pd(weight[t + l + 1]), s);
  });
  return s;
}

ETALON_INLINE __m512d bound(const DigitNorms& a, const DigitNorms& b, int dropped, int r, int h) {
  __m512d e = _mm512_mul_pd(_mm512_set1_pd(a.high[dropped - 3][r]),
                            _mm512_load_pd(b.low[dropped - 3] + h * 8));
  e = _mm512_fmadd_pd(_mm512_set1_pd(a.norm[r]), _mm512_load_pd(b.rest_join + h * 8), e);
  return _mm512_fmadd_pd(_mm512_set1_pd(a.rest[r]), _mm512_load_pd(b.norm + h * 8), e);
}

// Joins and rounds rows [p.row, stop) of the tile that waits.
template <int t>
ETALON_INLINE void round_rows(DigitPipe& p, int stop) {
  const DigitTile& tile = p.tile[1 - p.turn];
  const std::int32_t* levels = p.levels[1 - p.turn];
  const double* carry = p.carried[1 - p.turn] ? p.carry[1 - p.turn] : nullptr;
  const DigitNorms &a = *tile.a_norms, &b = *tile.b_norms;
  const __m512d size = _mm512_set1_pd(tile.scale < 0 ? -tile.scale : tile.scale);
  // Rounding of the product with scale, and of the additions below (exact_decide).
  const __m512d slack = _mm512_set1_pd(0x1p-52), addition = _mm512_set1_pd(0x1p-51);
  const auto there = static_cast<std::uint32_t>((1U << tile.columns) - 1);
  for (int r = p.row; r < stop; ++r) {
    __m256 lows[2], highs[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const int at = r * kDigitRows + h * 8;
      __m512d s = joined<t>(levels, at);
      if (carry != nullptr) s = _mm512_add_pd(s, _mm512_load_pd(carry + at));
      s = _mm512_mul_pd(s,
                        _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8)));
      __m512d e = bound(a, b, t, r, h);
      if (tile.scale != 1) {
        s = _mm512_mul_pd(_mm512_set1_pd(tile.scale), s);
        e = _mm512_fmadd_pd(slack, _mm512_abs_pd(s), _mm512_mul_pd(size, e));
      }
      if (tile.added != nullptr)
        s = _mm512_add_pd(s, _mm512_loadu_pd(tile.added + r * tile.added_row + h * 8));
      e = _mm512_fmadd_pd(addition, _mm512_abs_pd(s), e);
      lows[h] = _mm512_cvtpd_ps(_mm512_sub_pd(s, e));
      highs[h] = _mm512_cvtpd_ps(_mm512_add_pd(s, e));
    });
    // What is decided is either end.
    const __m512 low = _mm512_insertf32x8(_mm512_castps256_ps512(lows[0]), lows[1], 1),
                 high = _mm512_insertf32x8(_mm512_castps256_ps512(highs[0]), highs[1], 1);
    const std::uint32_t decided =
        _mm512_cmp_ps_mask(low, high, _CMP_EQ_OQ) &
        _mm512_cmpeq_epi32_mask(_mm512_castps_si512(low), _mm512_castps_si512(high));
    if (tile.runs != nullptr)
      _mm512_store_ps(p.square + r * kDigitRows, low);
    else
      _mm512_mask_storeu_ps(tile.y + r * tile.y_row, static_cast<__mmask16>(there), low);
    p.undecided[r] = static_cast<std::uint16_t>(~decided & there);
  }
  p.row = stop;
}

// Up to `rows` further rows of the tile that waits.
__attribute__((noinline)) void advance(DigitPipe& p, int rows) {
  const DigitTile& tile = p.tile[1 - p.turn];
  const int stop = p.row + rows < tile.rows ? p.row + rows : tile.rows;
  if (tile.dropped == 3)
    round_rows<3>(p, stop);
  else
    round_rows<4>(p, stop);
}

// The rest of the tile that waits.
void complete(DigitPipe& p) {
  const DigitTile& tile = p.tile[1 - p.turn];
  if (p.row < tile.rows) advance(p, kDigitRows);
  p.open = 0;
  if (tile.runs != nullptr) {
    __m512i column[kDigitRows];
    simd::unroll<kDigitRows>([&](auto r) ETALON_INLINE_LAMBDA {
      column[r] = _mm512_load_si512(p.square + r * kDigitRows);
    });
    transpose_dwords(column);
    std::uint32_t rows = 0;
    for (int n = 0; n < tile.run_count; ++n) {
      const DigitRun& run = tile.runs[n];
      const std::uint32_t lanes = ((1U << run.count) - 1) << run.first;
      rows |= lanes;
      float* y = tile.y + run.at - run.first;
      simd::unroll<kDigitRows>([&](auto i) ETALON_INLINE_LAMBDA {
        if (i < tile.columns)
          _mm512_mask_storeu_ps(y + i * tile.y_row, static_cast<__mmask16>(lanes),
                                _mm512_castsi512_ps(column[i]));
      });
    }
    for (int r = 0; r < tile.rows; ++r)
      if ((rows >> r & 1) == 0) p.undecided[r] = 0;
  }
  for (int r = 0; r < tile.rows; ++r) p.open += __builtin_popcount(p.undecided[r]);
  p.done = tile;
  p.ready = true;
}

// --- products

// Asks for the next step's lines after each product: where a strip is longer than the first cache,
// products wait for the second one otherwise (1024 terms: 24 ms instead of 19). Rows that many
// tiles share are not asked for.
template <bool packed>
ETALON_INLINE void ask(const std::uint8_t*& a, const std::uint8_t*& b) {
  constexpr int lines = packed ? 4 : 6;
  simd::unroll<lines>([&](auto i) ETALON_INLINE_LAMBDA {
    if constexpr (packed) _mm_prefetch(reinterpret_cast<const char*>(a + i * 64), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + i * 64), _MM_HINT_T0);
  });
  if constexpr (packed) a += lines * 64;
  b += lines * 64;
}

#define ETALON_A(i) _tile_loadd(6, a + (i) * a_plane, a_row)
#define ETALON_B(j) _tile_loadd(7, b + (j) * kPlaneBytes, kDigitStep)
#define ETALON_P(level)      \
  _tile_dpbssd(level, 6, 7); \
  ask<packed>(next_a, next_b)

// Accumulator of level l is tile l - 3, in both. `aside` is called three times.
template <bool packed, class Aside>
ETALON_INLINE void nineteen(const std::uint8_t* a, std::int64_t a_plane, std::int64_t a_row,
                            const std::uint8_t* b, const Aside& aside) {
  const std::uint8_t *next_a = a + kStepBytes, *next_b = b + kStepBytes;
  // clang-format off
  ETALON_A(0); ETALON_B(3); ETALON_P(0);
  ETALON_A(2); ETALON_P(2);  ETALON_A(1); ETALON_P(1);  ETALON_A(3); ETALON_P(3);
  ETALON_B(2); ETALON_P(2);  ETALON_A(2); ETALON_P(1);  ETALON_B(4); ETALON_P(3);
  aside();
  ETALON_A(1); ETALON_P(2);  ETALON_B(2); ETALON_P(0);  ETALON_A(4); ETALON_P(3);
  ETALON_B(1); ETALON_P(2);  ETALON_A(2); ETALON_P(0);  ETALON_A(3); ETALON_P(1);
  aside();
  ETALON_B(4); ETALON_P(4);  ETALON_B(0); ETALON_P(0);  ETALON_A(4); ETALON_P(1);
  ETALON_B(3); ETALON_P(4);  ETALON_B(4); ETALON_P(5);  ETALON_A(0); ETALON_P(1);
  aside();
  // clang-format on
}

template <bool packed, class Aside>
ETALON_INLINE void fifteen(const std::uint8_t* a, std::int64_t a_plane, std::int64_t a_row,
                           const std::uint8_t* b, const Aside& aside) {
  const std::uint8_t *next_a = a + kStepBytes, *next_b = b + kStepBytes;
  // clang-format off
  ETALON_A(0); ETALON_B(4); ETALON_P(1);
  ETALON_A(3); ETALON_P(4);  ETALON_B(2); ETALON_P(2);  ETALON_B(1); ETALON_P(1);
  aside();
  ETALON_B(3); ETALON_P(3);  ETALON_A(4); ETALON_P(4);  ETALON_A(1); ETALON_P(1);
  ETALON_B(4); ETALON_P(2);  ETALON_A(4); ETALON_P(5);  ETALON_B(0); ETALON_P(1);
  aside();
  ETALON_B(1); ETALON_P(2);  ETALON_B(2); ETALON_P(3);  ETALON_A(2); ETALON_P(1);
  ETALON_B(3); ETALON_P(2);  ETALON_B(4); ETALON_P(3);
  aside();
  // clang-format on
}

#undef ETALON_A
#undef ETALON_B
#undef ETALON_P

// Levels of steps [first, first + steps), [level - t][row][16].
template <bool packed, class Aside>
ETALON_INLINE void levels_of(const DigitTile& tile, std::int64_t first, std::int64_t steps,
                             std::int32_t* levels, const Aside& aside) {
  asm volatile("" : : : "memory");  // tile loads do not say that they read memory
  constexpr int stride = kDigitRows * 4, plane = kDigitRows * kDigitRows;
  const std::int64_t a_plane = packed ? kPlaneBytes : tile.a_plane,
                     a_row = packed ? kDigitStep : tile.a_row;
  const std::uint8_t *a = tile.a + first * kStepBytes, *b = tile.b + first * kStepBytes;
  const std::int64_t* at = packed ? nullptr : tile.a_steps + first;
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  if (tile.dropped == 3) {
    _tile_zero(0);
    for (std::int64_t s = 0; s < steps; ++s, a += kStepBytes, b += kStepBytes)
      nineteen<packed>(packed ? a : tile.a + at[s], a_plane, a_row, b, aside);
    _tile_stored(0, levels, stride);
  } else {
    for (std::int64_t s = 0; s < steps; ++s, a += kStepBytes, b += kStepBytes)
      fifteen<packed>(packed ? a : tile.a + at[s], a_plane, a_row, b, aside);
    levels -= plane;
  }
  _tile_stored(1, levels + plane, stride);
  _tile_stored(2, levels + 2 * plane, stride);
  _tile_stored(3, levels + 3 * plane, stride);
  _tile_stored(4, levels + 4 * plane, stride);
  _tile_stored(5, levels + 5 * plane, stride);
  asm volatile("" : : : "memory");
}

// All blocks of k: those before the last into `carry`, the last into `levels`. Returns whether
// there is a carry.
template <bool packed, class Aside>
ETALON_INLINE bool all_levels(const DigitTile& tile, std::int32_t* levels, double* carry,
                              const Aside& aside) {
  constexpr std::int64_t block = kDigitBlock / kDigitStep;
  std::int64_t first = 0;
  for (; tile.steps - first > block; first += block) {
    levels_of<packed>(tile, first, block, levels, aside);
    for (int at = 0; at < tile.rows * kDigitRows; at += 8) {
      __m512d s = tile.dropped == 3 ? joined<3>(levels, at) : joined<4>(levels, at);
      if (first > 0) s = _mm512_add_pd(s, _mm512_load_pd(carry + at));
      _mm512_store_pd(carry + at, s);
    }
  }
  levels_of<packed>(tile, first, tile.steps - first, levels, aside);
  return first > 0;
}

template <bool packed>
void multiply(DigitPipe& p) {
  const DigitTile& tile = p.tile[p.turn];
  std::int32_t* levels = p.levels[p.turn];
  double* carry = p.carry[p.turn];
  if (p.full) {
    const int rows = p.tile[1 - p.turn].rows;
    const auto calls = static_cast<int>(tile.steps < kDigitRows ? 3 * tile.steps : 3 * kDigitRows);
    const int each = (rows + calls - 1) / calls;
    p.carried[p.turn] = all_levels<packed>(tile, levels, carry, [&]() ETALON_INLINE_LAMBDA {
      if (p.row < rows) advance(p, each);
    });
  } else {
    p.carried[p.turn] = all_levels<packed>(tile, levels, carry, []() ETALON_INLINE_LAMBDA {});
  }
}

void next(DigitPipe& p, const DigitTile* tile) {
  p.ready = false;
  p.row = 0;
  if (tile != nullptr) {
    p.tile[p.turn] = *tile;
    if (tile->a_steps == nullptr)
      multiply<true>(p);
    else
      multiply<false>(p);
  }
  if (p.full) complete(p);
  p.full = tile != nullptr;
  p.turn = 1 - p.turn;
}

void product(const DigitTile& tile, DigitSums& to) {
  alignas(64) std::int32_t levels[kMaxLevels * kDigitRows * kDigitRows];
  const DigitNorms &a = *tile.a_norms, &b = *tile.b_norms;
  const auto alone = []() ETALON_INLINE_LAMBDA {};
  const bool resume = tile.a_steps == nullptr ? all_levels<true>(tile, levels, to.sums, alone)
                                              : all_levels<false>(tile, levels, to.sums, alone);
  for (int r = 0; r < tile.rows; ++r)
    for (int h = 0; h < 2; ++h) {
      const int at = r * kDigitRows + h * 8;
      __m512d s = tile.dropped == 3 ? joined<3>(levels, at) : joined<4>(levels, at);
      if (resume) s = _mm512_add_pd(s, _mm512_load_pd(to.sums + at));
      const __m512d unit = _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8));
      _mm512_store_pd(to.sums + at, _mm512_mul_pd(s, unit));
      _mm512_store_pd(to.bounds + at, bound(a, b, tile.dropped, r, h));
    }
}

}  // namespace

const DigitSet& digits() {
  static const DigitSet set{.pack = pack,
                            .pack_columns = pack_columns,
                            .transpose = transpose,
                            .begin = begin,
                            .end = end,
                            .next = next,
                            .product = product};
  return set;
}

}  // namespace etalon::amx
