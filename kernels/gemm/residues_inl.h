// Products of residues on a tile unit, and what joins and rounds their sums (residue_tile.h). Unit
// is the processor's, or a test's in software.
//
// Loops: plane; steps of k (ResidueWalk); strips of a, two and
// two, as many as fit beside two of b; strips of b; steps. Two by two tiles share each tile that is
// loaded: four loads for four products.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/residue_cut_amx.h"
#include "kernels/gemm/residue_tile.h"

namespace etalon::amx {

// So many steps at a time that a strip's tiles stay in the first cache, of 48 KiB; so many tiles of
// a and of two strips of b beside each other there.
inline constexpr std::int64_t kResidueSteps = 16, kResidueCached = 18;

template <class Unit>
struct ResidueProducts {
  // Two strips (or one) of a by two (or one) of b, over `steps` steps. All loads come before the
  // products; in turns with them is no faster.
  template <int R, int C>
  ETALON_INLINE static void tiles(const std::uint8_t* const* a, const std::int64_t* a_steps,
                                  std::int64_t a_row, const std::uint8_t* const* b,
                                  std::int64_t steps, std::int32_t* const* to, bool resume) {
    if (resume)
      simd::unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA { Unit::template load<t>(to[t], 64); });
    else
      simd::unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA { Unit::template zero<t>(); });
    for (std::int64_t s = 0; s < steps; ++s) {
      const std::int64_t at = s * kResidueTileBytes;
      Unit::template load<4>(a[0] + a_steps[s], a_row);
      Unit::template load<6>(b[0] + at, kResidueTileStep);
      if constexpr (C == 2) Unit::template load<7>(b[1] + at, kResidueTileStep);
      if constexpr (R == 2) Unit::template load<5>(a[1] + a_steps[s], a_row);
      Unit::template multiply<0, 4, 6>();
      if constexpr (C == 2) Unit::template multiply<1, 4, 7>();
      if constexpr (R == 2) Unit::template multiply<C, 5, 6>();
      if constexpr (R == 2 && C == 2) Unit::template multiply<3, 5, 7>();
    }
    simd::unroll<R * C>([&](auto t) ETALON_INLINE_LAMBDA { Unit::template store<t>(to[t]); });
  }

  static std::int32_t* sums_of(const ResidueBlock& block, std::int32_t* sums, int s, int c) {
    return sums + (s * block.column_strips + c) * (kResiduePlanes * kResidueTileSums);
  }

  static void multiply(const ResidueBlock& block, std::int32_t* sums) {
    asm volatile("" : : : "memory");  // tile loads do not say that they read memory
    const std::int64_t parts = block.steps > 0 ? (block.steps - 1) / kResidueSteps + 1 : 1;
    const std::int64_t each = (block.steps + parts - 1) / parts;
    const auto group = static_cast<int>(
        each == 0 ? 2 : 2 * (kResidueCached / each > 2 ? kResidueCached / each - 1 : 1));
    for (int i = 0; i < kResiduePlanes; ++i)
      for (std::int64_t part = 0; part < parts; ++part) {
        const std::int64_t first = part * each,
                           steps = block.steps - first < each ? block.steps - first : each;
        for (int s0 = 0; s0 < block.row_strips; s0 += group)
          for (int c = 0; c < block.column_strips; c += 2)
            for (int s = s0; s < block.row_strips && s < s0 + group; s += 2) {
              const int r_count = block.row_strips - s >= 2 ? 2 : 1,
                        c_count = block.column_strips - c >= 2 ? 2 : 1;
              const std::uint8_t *a[2], *b[2];
              std::int32_t* to[4];
              for (int r = 0; r < r_count; ++r) a[r] = block.rows[s + r].a + i * block.a_plane;
              for (int q = 0; q < c_count; ++q)
                b[q] = block.columns[c + q].b + i * block.b_plane + first * kResidueTileBytes;
              for (int r = 0; r < r_count; ++r)
                for (int q = 0; q < c_count; ++q)
                  to[r * c_count + q] = sums_of(block, sums, s + r, c + q) + i * kResidueTileSums;
              const std::int64_t* a_steps = block.a_steps + first;
              const bool resume = part > 0;
              if (r_count == 2 && c_count == 2)
                tiles<2, 2>(a, a_steps, block.a_row, b, steps, to, resume);
              else if (r_count == 2)
                tiles<2, 1>(a, a_steps, block.a_row, b, steps, to, resume);
              else if (c_count == 2)
                tiles<1, 2>(a, a_steps, block.a_row, b, steps, to, resume);
              else
                tiles<1, 1>(a, a_steps, block.a_row, b, steps, to, resume);
            }
      }
    asm volatile("" : : : "memory");
  }

  // Sums of row r of a tile and columns [8 h, 8 h + 8), in units of both operands, and bounds.
  struct Eight {
    __m512d sum, bound;
  };
  ETALON_INLINE static Eight join(const ResidueTables& tables, const std::int32_t* sums,
                                  const ResidueNorms& a, const ResidueNorms& b, int r, int h) {
    const std::int32_t* from = sums + r * kResidueTileRows + h * 8;
    __m512i high = _mm512_set1_epi64(5), low = _mm512_setzero_si512();
    simd::unroll<kResiduePlanes>([&](auto i) ETALON_INLINE_LAMBDA {
      const __m512i s = _mm512_cvtepu32_epi64(
          _mm256_load_si256(reinterpret_cast<const __m256i*>(from + i * kResidueTileSums)));
      high = _mm512_madd52lo_epu64(high, s, _mm512_set1_epi64(tables.c_high[i]));
      low = _mm512_madd52hi_epu64(low, s, _mm512_set1_epi64(tables.c_low[i]));
    });
    const __m512i s = _mm512_slli_epi64(_mm512_add_epi64(high, low), 12);
    const __m512d unit = _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8));
    // 7 of 2^-52 M; see residue_bound.
    constexpr double kError = 7 * 0x1p12 * kResidueForm.scale;
    Eight e;
    e.sum = _mm512_mul_pd(_mm512_mul_pd(_mm512_cvtepi64_pd(s), _mm512_set1_pd(kResidueForm.scale)),
                          unit);
    e.bound = _mm512_fmadd_pd(_mm512_set1_pd(0x1p-51), _mm512_abs_pd(e.sum),
                              _mm512_mul_pd(_mm512_set1_pd(kError), unit));
    e.bound = _mm512_fmadd_pd(_mm512_set1_pd(a.norm[r]), _mm512_load_pd(b.rest + h * 8), e.bound);
    e.bound = _mm512_fmadd_pd(_mm512_set1_pd(a.rest[r]), _mm512_load_pd(b.norm + h * 8), e.bound);
    e.bound = _mm512_mul_pd(e.bound, _mm512_set1_pd(1 + 0x1p-40));
    return e;
  }

  // Joins and rounds row r: outputs, and which of them are decided.
  ETALON_INLINE static std::uint32_t round_row(const ResidueTables& tables,
                                               const ResidueBlock& block, const std::int32_t* sums,
                                               const ResidueNorms& a, const ResidueNorms& b,
                                               const double* added, int r, __m512& y) {
    __m256 lows[2], highs[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      auto [s, e] = join(tables, sums, a, b, r, h);
      if (block.scale != 1) {
        s = _mm512_mul_pd(_mm512_set1_pd(block.scale), s);
        e = _mm512_fmadd_pd(
            _mm512_set1_pd(0x1p-52), _mm512_abs_pd(s),
            _mm512_mul_pd(_mm512_set1_pd(block.scale < 0 ? -block.scale : block.scale), e));
      }
      if (added != nullptr)
        s = _mm512_add_pd(s, _mm512_loadu_pd(added + r * block.added_row + h * 8));
      e = _mm512_fmadd_pd(_mm512_set1_pd(0x1p-51), _mm512_abs_pd(s), e);
      lows[h] = _mm512_cvtpd_ps(_mm512_sub_pd(s, e));
      highs[h] = _mm512_cvtpd_ps(_mm512_add_pd(s, e));
    });
    // What is decided is either end.
    const __m512 low = _mm512_insertf32x8(_mm512_castps256_ps512(lows[0]), lows[1], 1),
                 high = _mm512_insertf32x8(_mm512_castps256_ps512(highs[0]), highs[1], 1);
    y = low;
    return _mm512_cmp_ps_mask(low, high, _CMP_EQ_OQ) &
           _mm512_cmpeq_epi32_mask(_mm512_castps_si512(low), _mm512_castps_si512(high));
  }

  static void round_tile(const ResidueTables& tables, const ResidueBlock& block,
                         const std::int32_t* sums, int s, int c) {
    const ResidueRows& rows = block.rows[s];
    const ResidueColumns& columns = block.columns[c];
    const double* added =
        block.added == nullptr ? nullptr : block.added + rows.added + columns.added;
    const auto there = static_cast<std::uint32_t>((1U << columns.columns) - 1);
    float* y = block.y + rows.at + columns.at;
    alignas(64) __m512i square[kResidueTileRows] = {};
    std::uint16_t undecided[kResidueTileRows] = {};
    std::uint32_t any = 0;
    for (int r = 0; r < rows.rows; ++r) {
      __m512 low;
      const std::uint32_t open =
          ~round_row(tables, block, sums, *rows.norms, *columns.norms, added, r, low) & there;
      any |= open;
      undecided[r] = static_cast<std::uint16_t>(open);
      if (rows.runs == nullptr)
        _mm512_mask_storeu_ps(y + r * block.y_row, static_cast<__mmask16>(there), low);
      else
        square[r] = _mm512_castps_si512(low);
    }
    if (rows.runs != nullptr) {
      transpose_dwords(square);
      std::uint32_t used = 0;
      for (int n = 0; n < rows.run_count; ++n) {
        const ResidueRun& run = rows.runs[n];
        const std::uint32_t lanes = ((1U << run.count) - 1) << run.first;
        used |= lanes;
        float* to = block.y + columns.at + run.at - run.first;
        for (int i = 0; i < columns.columns; ++i)
          _mm512_mask_storeu_ps(to + i * block.y_row, static_cast<__mmask16>(lanes),
                                _mm512_castsi512_ps(square[i]));
      }
      for (int r = 0; r < rows.rows; ++r)
        if ((used >> r & 1) == 0) undecided[r] = 0;
    }
    if (any != 0) block.open(block.caller, block, s, c, undecided);
  }

  static void wide_tile(const ResidueTables& tables, const ResidueBlock& block,
                        const std::int32_t* sums, int s, int c) {
    ResidueSums to;
    for (int r = 0; r < kResidueTileRows; ++r)
      for (int h = 0; h < 2; ++h) {
        const Eight e = join(tables, sums, *block.rows[s].norms, *block.columns[c].norms, r, h);
        _mm512_store_pd(to.sums + r * kResidueTileRows + h * 8, e.sum);
        _mm512_store_pd(to.bounds + r * kResidueTileRows + h * 8, e.bound);
      }
    block.wide(block.caller, block, s, c, to);
  }

  static void round(const ResidueBlock& block, std::int32_t* sums) {
    // Read from memory, where a broadcast is free: known constants go through integer registers.
    const ResidueTables* tables = &kResidueTables;
    asm("" : "+r"(tables));
    for (int s = 0; s < block.row_strips; ++s)
      for (int c = 0; c < block.column_strips; ++c) {
        const std::int32_t* of = sums_of(block, sums, s, c);
        if (block.wide != nullptr)
          wide_tile(*tables, block, of, s, c);
        else
          round_tile(*tables, block, of, s, c);
      }
  }

  static void run(const ResidueBlock& block, std::int32_t* sums) {
    multiply(block, sums);
    round(block, sums);
  }
};

// residue_pack_amx.cpp
void pack_residues(const float* const* rows, std::int64_t k, bool right, std::uint8_t* to,
                   std::int64_t plane, ResidueNorms& norms);
double cut_residues_turned(const ResidueTurn& block, double unit, std::uint8_t* to,
                           std::int64_t pitch, std::int64_t plane);
void gather_residues(const std::uint8_t* from, std::int64_t plane, const std::int64_t* offset,
                     int runs, std::int64_t bytes, std::uint8_t* to, std::int64_t to_plane);
void transpose(const float* from, std::int64_t from_stride, int lanes, std::int64_t k, float* to,
               std::int64_t to_stride);
void add_squares(const float* x, std::int64_t stride, std::int64_t channels, std::int64_t count,
                 double* sums);

template <class Unit>
const ResidueSet& residue_set_of() {
  static const ResidueSet set{.transpose = transpose,
                              .pack = pack_residues,
                              .cut_turned = cut_residues_turned,
                              .gather = gather_residues,
                              .add_squares = add_squares,
                              .begin = Unit::begin,
                              .end = Unit::end,
                              .run = ResidueProducts<Unit>::run};
  return set;
}

}  // namespace etalon::amx
