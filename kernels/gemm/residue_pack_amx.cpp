// Operands as bytes modulo eleven numbers (residue_tile.h): strips of 16 rows, with unit and norms,
// and planes of an image that many products share.
#include <immintrin.h>

#include "kernels/gemm/residue_cut_amx.h"
#include "kernels/gemm/residues_inl.h"

namespace etalon::amx {

namespace {

// residue_unit and residue_norm of eight rows, whose rests take the join's share.
struct EightRows {
  __m512d unit, scale;  // scale: the inverse, or 0
};
ETALON_INLINE __mmask8 finite_rows(__m512d squares) {
  return _mm512_cmp_pd_mask(squares, _mm512_set1_pd(kInfinity), _CMP_LT_OQ);
}
ETALON_INLINE EightRows unit_rows(__m512d squares) {
  const __mmask8 there =
      finite_rows(squares) & _mm512_cmp_pd_mask(squares, _mm512_setzero_pd(), _CMP_GT_OQ);
  const __m512d root = _mm512_mul_pd(_mm512_sqrt_pd(squares), _mm512_set1_pd(1 + 0x1p-9));
  const __m512i exponent = _mm512_srli_epi64(_mm512_castpd_si512(root), 52),
                bits = _mm512_slli_epi64(
                    _mm512_add_epi64(exponent, _mm512_set1_epi64(1 - kResidueNormBits)), 52);
  const __m512d unit = _mm512_maskz_mov_pd(there, _mm512_castsi512_pd(bits));
  return {unit, _mm512_maskz_div_pd(there, _mm512_set1_pd(1), unit)};
}
ETALON_INLINE void norm_rows(__m512d squares, __m512d rests, __m512d unit, ResidueNorms& norms,
                             int at) {
  const __m512d room = _mm512_set1_pd(1 + 0x1p-9), nan = _mm512_set1_pd(kNan);
  const __mmask8 finite = finite_rows(squares);
  const __m512d rest = _mm512_mul_pd(_mm512_mul_pd(_mm512_sqrt_pd(rests), room), unit),
                norm = _mm512_mul_pd(_mm512_add_pd(_mm512_sqrt_pd(squares), rest), room),
                joined = _mm512_fmadd_pd(_mm512_set1_pd(kResidueJoinRest), unit, rest);
  _mm512_store_pd(norms.unit + at, unit);
  _mm512_store_pd(norms.norm + at, _mm512_mask_mov_pd(nan, finite, norm));
  _mm512_store_pd(norms.rest + at, _mm512_mask_mov_pd(nan, finite, joined));
}

}  // namespace

void pack_residues(const float* const* rows, std::int64_t k, bool right, std::uint8_t* to,
                   std::int64_t plane, ResidueNorms& norms) {
  const std::int64_t steps = (k + kResidueTileStep - 1) / kResidueTileStep;
  alignas(64) double squares[kResidueTileRows] = {}, rests[kResidueTileRows] = {},
                     scales[kResidueTileRows];
  for (int r = 0; r < kResidueTileRows; ++r) {
    if (rows[r] == nullptr) continue;
    __m512d sum[4] = {};
    for (std::int64_t i = 0; i < k; i += 32)
      simd::unroll<2>([&](auto v) ETALON_INLINE_LAMBDA {
        simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
          const __m512d x = load_eight(rows[r] + i + v * 16, k - i - v * 16, h);
          sum[v * 2 + h] = _mm512_fmadd_pd(x, x, sum[v * 2 + h]);
        });
      });
    squares[r] = _mm512_reduce_add_pd(
        _mm512_add_pd(_mm512_add_pd(sum[0], sum[1]), _mm512_add_pd(sum[2], sum[3])));
  }
  __m512d units[2];
  for (int h = 0; h < 2; ++h) {
    const EightRows n = unit_rows(_mm512_load_pd(squares + 8 * h));
    units[h] = n.unit;
    _mm512_store_pd(scales + 8 * h, n.scale);
  }
  for (int r = 0; r < kResidueTileRows; ++r) {
    std::uint8_t* row = to + r * kResidueTileStep;
    if (rows[r] == nullptr || scales[r] == 0) {
      for (int i = 0; i < kResiduePlanes; ++i)
        for (std::int64_t t = 0; t < steps; ++t)
          _mm512_store_si512(row + i * plane + t * kResidueTileBytes, _mm512_setzero_si512());
      continue;
    }
    const __m512d scale[2] = {_mm512_set1_pd(scales[r]), _mm512_set1_pd(scales[r])};
    __m512d rest[2] = {};
    for (std::int64_t t = 0; t < steps; ++t) {
      const float* from = rows[r] + t * kResidueTileStep;
      std::uint8_t* at = row + t * kResidueTileBytes;
      const auto store = [&](int i, __m512i bytes)
                             ETALON_INLINE_LAMBDA { _mm512_store_si512(at + i * plane, bytes); };
      if (k - t * kResidueTileStep >= kResidueTileStep)
        cut_values<false>([&](int v, int h)
                              ETALON_INLINE_LAMBDA { return load_eight(from + v * 16, 16, h); },
                          scale, rest, store);
      else
        cut_values<false>(
            [&](int v, int h) ETALON_INLINE_LAMBDA {
              return load_eight(from + v * 16, k - t * kResidueTileStep - v * 16, h);
            },
            scale, rest, store);
    }
    rests[r] = _mm512_reduce_add_pd(_mm512_add_pd(rest[0], rest[1]));
  }
  for (int h = 0; h < 2; ++h)
    norm_rows(_mm512_load_pd(squares + 8 * h), _mm512_load_pd(rests + 8 * h), units[h], norms,
              8 * h);
  if (!right) return;
  for (int i = 0; i < kResiduePlanes; ++i)
    for (std::int64_t t = 0; t < steps; ++t) {
      std::uint8_t* tile = to + i * plane + t * kResidueTileBytes;
      __m512i row[kResidueTileRows];
      simd::unroll<kResidueTileRows>([&](auto r) ETALON_INLINE_LAMBDA {
        row[r] = _mm512_load_si512(tile + r * kResidueTileStep);
      });
      transpose_dwords(row);
      simd::unroll<kResidueTileRows>([&](auto r) ETALON_INLINE_LAMBDA {
        _mm512_store_si512(tile + r * kResidueTileStep, row[r]);
      });
    }
}

void pack_residues_across(const float* from, std::int64_t stride, int columns, std::int64_t k,
                          std::uint8_t* to, std::int64_t plane, ResidueNorms& norms) {
  constexpr int kTogether = 4;  // terms of a column that share a dword of the right operand
  __m512d sum[kTogether][2] = {};
  const std::int64_t whole = k / kTogether * kTogether;
  const auto add_squares_of = [&](std::int64_t i, auto v) ETALON_INLINE_LAMBDA {
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const __m512d x = load_eight(from + (i + v) * stride, columns, h);
      sum[v][h] = _mm512_fmadd_pd(x, x, sum[v][h]);
    });
  };
  for (std::int64_t i = 0; i < whole; i += kTogether)
    simd::unroll<kTogether>([&](auto v) ETALON_INLINE_LAMBDA { add_squares_of(i, v); });
  for (std::int64_t i = whole; i < k; ++i) add_squares_of(i, std::integral_constant<int, 0>{});
  __m512d scale[2], rest[2] = {}, squares[2], units[2];
  simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
    squares[h] =
        _mm512_add_pd(_mm512_add_pd(sum[0][h], sum[1][h]), _mm512_add_pd(sum[2][h], sum[3][h]));
    const EightRows n = unit_rows(squares[h]);
    units[h] = n.unit;
    scale[h] = n.scale;
  });
  for (std::int64_t i = 0; i < k; i += kTogether) {
    std::uint8_t* at = to + i / kTogether * 64;
    const auto store = [&](int p, __m512i bytes)
                           ETALON_INLINE_LAMBDA { _mm512_store_si512(at + p * plane, bytes); };
    if (i < whole && columns == kResidueTileRows)
      cut_values<true>(
          [&](int v, int h)
              ETALON_INLINE_LAMBDA { return load_eight(from + (i + v) * stride, 16, h); },
          scale, rest, store);
    else
      cut_values<true>(
          [&](int v, int h) ETALON_INLINE_LAMBDA {
            return load_eight(from + (i + v) * stride, i + v < k ? columns : 0, h);
          },
          scale, rest, store);
  }
  // What the last step reads behind k: nothing.
  for (std::int64_t i = (k + kTogether - 1) / kTogether; i % kResidueTileRows != 0; ++i)
    for (int p = 0; p < kResiduePlanes; ++p)
      _mm512_store_si512(to + p * plane + i * 64, _mm512_setzero_si512());
  simd::unroll<2>(
      [&](auto h) ETALON_INLINE_LAMBDA { norm_rows(squares[h], rest[h], units[h], norms, 8 * h); });
}

double cut_residues_turned(const ResidueTurn& block, double unit, std::uint8_t* to,
                           std::int64_t pitch, std::int64_t plane) {
  // Pixels that follow one another without a gap are one run of values, so that vectors are full.
  const bool run = pitch == block.channels;
  const int apart = run ? block.channels : kResidueTileStep;
  alignas(64) float turned[kResidueTileRows * kResidueTileStep + kResidueTileRows];
  const auto there = static_cast<__mmask16>((1U << block.pixels) - 1);
  // Downwards, because whole vectors are written: what spills into the next pixel is written after.
  for (int c = (block.channels - 1) / 16 * 16; c >= 0; c -= 16) {
    __m512i r[16];
    simd::unroll<16>([&](auto i) ETALON_INLINE_LAMBDA {
      r[i] = c + i < block.channels
                 ? _mm512_maskz_loadu_epi32(there, block.from + (c + i) * block.stride)
                 : _mm512_setzero_si512();
    });
    transpose_dwords(r);
    simd::unroll<16>(
        [&](auto i) ETALON_INLINE_LAMBDA { _mm512_storeu_si512(turned + i * apart + c, r[i]); });
  }
  const __m512d inverse = _mm512_set1_pd(residue_inverse(unit)), scale[2] = {inverse, inverse};
  __m512d rest[2] = {};
  const auto cut = [&](const float* from, int count, std::uint8_t* dst) {
    if (count >= kResidueTileStep)
      return cut_values<false>(
          [&](int v, int h) ETALON_INLINE_LAMBDA { return load_eight(from + v * 16, 16, h); },
          scale, rest,
          [&](int i, __m512i v) ETALON_INLINE_LAMBDA { _mm512_storeu_si512(dst + i * plane, v); });
    const __mmask64 bytes = ~0ULL >> (kResidueTileStep - count);
    cut_values<false>(
        [&](int v, int h)
            ETALON_INLINE_LAMBDA { return load_eight(from + v * 16, count - v * 16, h); },
        scale, rest,
        [&](int i, __m512i v)
            ETALON_INLINE_LAMBDA { _mm512_mask_storeu_epi8(dst + i * plane, bytes, v); });
  };
  if (run) {
    const int values = block.pixels * block.channels;
    for (int i = 0; i < values; i += kResidueTileStep) cut(turned + i, values - i, to + i);
  } else {
    for (int i = 0; i < block.pixels; ++i, to += pitch)
      cut(turned + i * kResidueTileStep, block.channels, to);
  }
  return _mm512_reduce_add_pd(_mm512_add_pd(rest[0], rest[1]));
}

void gather_residues(const std::uint8_t* from, std::int64_t plane, const std::int64_t* offset,
                     int runs, std::int64_t bytes, std::uint8_t* to, std::int64_t to_plane) {
  std::int64_t at = 0;  // in the step
  for (int i = 0; i < runs; ++i) {
    const std::uint8_t* source = from + offset[i];
    for (std::int64_t left = bytes; left > 0;) {
      const std::int64_t room = kResidueTileStep - at, n = left < room ? left : room;
      const __mmask64 mask = ~0ULL >> (64 - n);
      simd::unroll<kResiduePlanes>([&](auto p) ETALON_INLINE_LAMBDA {
        _mm512_mask_storeu_epi8(to + p * to_plane + at, mask,
                                _mm512_maskz_loadu_epi8(mask, source + p * plane));
      });
      left -= n;
      source += n;
      at += n;
      if (at == kResidueTileStep) {
        at = 0;
        to += kResidueTileBytes;
      }
    }
  }
}

void add_squares(const float* x, std::int64_t stride, std::int64_t channels, std::int64_t count,
                 double* sums) {
  for (std::int64_t i = 0; i < count; i += 8) {
    const auto mask = static_cast<__mmask8>(count - i >= 8 ? 0xffU : (1U << (count - i)) - 1);
    __m512d sum = _mm512_maskz_loadu_pd(mask, sums + i);
    for (std::int64_t c = 0; c < channels; ++c) {
      const __m512d v = _mm512_cvtps_pd(_mm256_maskz_loadu_ps(mask, x + c * stride + i));
      sum = _mm512_fmadd_pd(v, v, sum);
    }
    _mm512_mask_storeu_pd(sums + i, mask, sum);
  }
}

void transpose(const float* from, std::int64_t from_stride, int lanes, std::int64_t k, float* to,
               std::int64_t to_stride) {
  const auto mask = static_cast<__mmask16>((1U << lanes) - 1);
  for (std::int64_t j = 0; j < k; j += 16) {
    __m512i r[16];
    simd::unroll<16>([&](auto i) ETALON_INLINE_LAMBDA {
      r[i] = j + i < k ? _mm512_maskz_loadu_epi32(mask, from + (j + i) * from_stride)
                       : _mm512_setzero_si512();
    });
    transpose_dwords(r);
    simd::unroll<16>(
        [&](auto i) ETALON_INLINE_LAMBDA { _mm512_storeu_si512(to + i * to_stride + j, r[i]); });
  }
}

}  // namespace etalon::amx
