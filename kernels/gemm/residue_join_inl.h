// How the sums of eleven planes become outputs (residue_tile.h): joined by the tile unit, bound and
// rounded in vectors. For files compiled for AMX.
//
// v / M modulo 1 is the sum of S_i u_i / m_i modulo 1, where u_i undoes what M / m_i and both
// operands' factors multiply by, modulo m_i. Byte b of S_i counts 256^b u_i / m_i modulo 1, which
// is written as eight bytes, rounded: so the eight bytes of v / M, before carries, are a product of
// an 8x44 matrix of constants with the 44 bytes of the sums of an output, and the planes of a row
// of sixteen outputs lie in memory just as the tile instruction wants its right operand. In units
// of 2^-64, rounding the constants is off by at most 44 * 255 / 2 = 5610. A byte of v / M before
// carries, D_d, is at most 44 * 255^2 < 2^22. Then
//     high = D_4 + 2^8 D_5 + 2^16 D_6 + 2^24 D_7, modulo 2^32, as a signed number,
//     low = D_2 + 2^8 D_3 + (D_1 + D_0 / 2^8) / 2^8, divisions rounded down, below 2^31,
// and 2^32 high + 2^16 low is 2^64 v / M within 5610 + 2^16 + 2^8: |v| / M < 0.486 and low / 2^48 <
// 2^-17, so high, which is the difference, does not wrap. Exact so far; then it becomes f64.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/residue_cut_amx.h"
#include "kernels/gemm/residue_tile.h"
#include "kernels/gemm/residue_tile_unit.h"

namespace etalon::amx {

inline constexpr int kJoinRows = 8, kJoinBytes = 4 * kResiduePlanes;

struct alignas(64) JoinMatrix {
  std::uint8_t digit[kJoinRows][64] = {};
};
constexpr JoinMatrix join_matrix() {
  JoinMatrix matrix;
  const uint128 product = wide_of(kResidueForm.product);
  for (int i = 0; i < kResiduePlanes; ++i) {
    const auto m = static_cast<unsigned>(kResidueCut.of[i].m),
               factor = static_cast<unsigned>(kResidueCut.of[i].factor);
    const unsigned done = static_cast<unsigned>(product / m % m) * (factor * factor % m) % m;
    unsigned weight = 1;
    while (weight * done % m != 1) ++weight;
    for (int b = 0; b < 4; ++b, weight = weight * 256 % m) {
      const auto part = static_cast<std::uint64_t>(((uint128{weight} << 64) + m / 2) / m);
      for (int d = 0; d < kJoinRows; ++d)
        matrix.digit[d][4 * i + b] = static_cast<std::uint8_t>(part >> (8 * d));
    }
  }
  return matrix;
}
inline constexpr JoinMatrix kJoinMatrix = join_matrix();

// 0 to 3 digits; 4 to 6 sums; 7 the matrix.
constexpr TileShapes join_shapes() {
  TileShapes shapes;
  for (int t = 0; t < 8; ++t) {
    shapes.bytes[t] = t == 7 ? kJoinBytes : 64;
    shapes.rows[t] = t >= 4 && t < 7 ? kResiduePlanes : kJoinRows;
  }
  return shapes;
}
inline constexpr TileShapes kJoinShapes = join_shapes();

// Of a tile of outputs, [row][digit][column].
struct alignas(64) JoinDigits {
  std::int32_t of[kResidueTileRows][kJoinRows][kResidueTileRows];
};

template <class Unit>
struct ResidueJoin {
  // Register 7 holds the matrix.
  ETALON_INLINE static void begin() {
    Unit::configure(kJoinShapes);
    Unit::template load<7>(kJoinMatrix.digit, 64);
  }
  static void digits(const std::int32_t* sums, int rows, JoinDigits& to) {
    for (int r = 0; r < rows; r += 4)
      simd::unroll<4>([&](auto n) ETALON_INLINE_LAMBDA {
        Unit::template zero<n>();
        Unit::template load<4 + n % 3>(sums + (r + n) * kResidueTileRows, kResidueTileBytes);
        Unit::template multiply<n, 7, 4 + n % 3>();
        Unit::template store<n>(to.of[r + n]);
      });
  }

  // Of sixteen outputs, in halves; bounds but for 2^-51 of the sum.
  struct Sixteen {
    __m512d sum[2], bound[2];
  };
  ETALON_INLINE static Sixteen join(const std::int32_t (&digit)[kJoinRows][kResidueTileRows],
                                    const ResidueNorms& a, const ResidueNorms& b, int r) {
    const auto d = [&](int i) ETALON_INLINE_LAMBDA { return _mm512_load_si512(digit[i]); };
    const auto add = [](__m512i x, __m512i y)
                         ETALON_INLINE_LAMBDA { return _mm512_add_epi32(x, y); };
    const __m512i carry = _mm512_srli_epi32(add(_mm512_srli_epi32(d(0), 8), d(1)), 8),
                  low = add(add(_mm512_slli_epi32(d(3), 8), d(2)), carry),
                  high = add(add(_mm512_slli_epi32(d(5), 8), d(4)),
                             add(_mm512_slli_epi32(d(6), 16), _mm512_slli_epi32(d(7), 24)));
    constexpr double kScale = 0x1p32 * kResidueForm.scale;
    const __m512d scale = _mm512_set1_pd(a.unit[r] * kScale), norm = _mm512_set1_pd(a.norm[r]),
                  rest = _mm512_set1_pd(a.rest[r]);
    Sixteen s;
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const auto half = [&](__m512i v) ETALON_INLINE_LAMBDA {
        return _mm512_cvtepi32_pd(h == 0 ? _mm512_castsi512_si256(v)
                                         : _mm512_extracti64x4_epi64(v, 1));
      };
      const __m512d whole = _mm512_fmadd_pd(half(low), _mm512_set1_pd(0x1p-16), half(high));
      // Of a row of zeros: +0.
      s.sum[h] = _mm512_fmadd_pd(whole, _mm512_mul_pd(scale, _mm512_load_pd(b.unit + h * 8)),
                                 _mm512_setzero_pd());
      s.bound[h] = _mm512_fmadd_pd(norm, _mm512_load_pd(b.rest + h * 8),
                                   _mm512_mul_pd(rest, _mm512_load_pd(b.norm + h * 8)));
    });
    return s;
  }

  // Joins and rounds row r: outputs, and which of them are decided.
  template <bool plain>
  ETALON_INLINE static std::uint32_t round_row(const ResidueBlock& block, const ResidueRows& rows,
                                               const ResidueColumns& columns,
                                               const JoinDigits& digits, int r, __m512& y) {
    Sixteen n = join(digits.of[r], *rows.norms, *columns.norms, r);
    __m256 lows[2], highs[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      __m512d s = n.sum[h], e = n.bound[h];
      e = _mm512_fmadd_pd(_mm512_set1_pd(plain ? 0x1p-50 : 0x1p-51), _mm512_abs_pd(s), e);
      if constexpr (!plain) {
        if (block.scale != 1) {
          s = _mm512_mul_pd(_mm512_set1_pd(block.scale), s);
          e = _mm512_fmadd_pd(
              _mm512_set1_pd(0x1p-52), _mm512_abs_pd(s),
              _mm512_mul_pd(_mm512_set1_pd(block.scale < 0 ? -block.scale : block.scale), e));
        }
        if (block.row_added != nullptr)
          s = _mm512_add_pd(s, _mm512_set1_pd(block.row_added[rows.added + r]));
        if (block.added != nullptr)
          s = _mm512_add_pd(s, _mm512_loadu_pd(block.added + rows.added + columns.added +
                                               r * block.added_row + h * 8));
        e = _mm512_fmadd_pd(_mm512_set1_pd(0x1p-51), _mm512_abs_pd(s), e);
      }
      lows[h] = _mm512_cvtpd_ps(_mm512_sub_pd(s, e));
      highs[h] = _mm512_cvtpd_ps(_mm512_add_pd(s, e));
    });
    // What is decided is either end.
    const __m512 low = _mm512_insertf32x8(_mm512_castps256_ps512(lows[0]), lows[1], 1),
                 high = _mm512_insertf32x8(_mm512_castps256_ps512(highs[0]), highs[1], 1);
    y = low;
    // The same bits: no NaN of both ends, and no zero that is not zero.
    return _mm512_cmp_ps_mask(low, high, _CMP_EQ_OQ) &
           _mm512_cmpeq_epi32_mask(_mm512_castps_si512(low), _mm512_castps_si512(high));
  }

  template <bool plain>
  static void round_tile(const ResidueBlock& block, const JoinDigits& digits, int s, int c) {
    const ResidueRows& rows = block.rows[s];
    const ResidueColumns& columns = block.columns[c];
    const auto there = static_cast<std::uint32_t>((1U << columns.columns) - 1);
    float* y = block.y + rows.at + columns.at;
    alignas(64) __m512i square[kResidueTileRows];
    std::uint16_t undecided[kResidueTileRows] = {};
    std::uint32_t any = 0;
    for (int r = 0; r < rows.rows; ++r) {
      __m512 low;
      const std::uint32_t open = ~round_row<plain>(block, rows, columns, digits, r, low) & there;
      any |= open;
      undecided[r] = static_cast<std::uint16_t>(open);
      if (rows.runs == nullptr)
        _mm512_mask_storeu_ps(y + r * block.y_row, static_cast<__mmask16>(there), low);
      else
        square[r] = _mm512_castps_si512(low);
    }
    if (rows.runs != nullptr) {
      for (int r = rows.rows; r < kResidueTileRows; ++r) square[r] = _mm512_setzero_si512();
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

  static void wide_tile(const ResidueBlock& block, const JoinDigits& digits, int s, int c) {
    ResidueSums to;
    for (int r = 0; r < block.rows[s].rows; ++r) {
      const Sixteen n = join(digits.of[r], *block.rows[s].norms, *block.columns[c].norms, r);
      simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
        _mm512_store_pd(to.sums + r * kResidueTileRows + h * 8, n.sum[h]);
        _mm512_store_pd(
            to.bounds + r * kResidueTileRows + h * 8,
            _mm512_fmadd_pd(_mm512_set1_pd(0x1p-51), _mm512_abs_pd(n.sum[h]), n.bound[h]));
      });
    }
    block.wide(block.caller, block, s, c, to);
  }

  static void round(const ResidueBlock& block, const JoinDigits& digits, int s, int c) {
    if (block.wide != nullptr)
      wide_tile(block, digits, s, c);
    else if (block.scale == 1 && block.added == nullptr && block.row_added == nullptr)
      round_tile<true>(block, digits, s, c);
    else
      round_tile<false>(block, digits, s, c);
  }
};

}  // namespace etalon::amx
