// Operands as bytes modulo eleven numbers (residue_tile.h): strips of 16 rows, with unit and norms,
// and planes of an image that many products share.
#include <immintrin.h>

#include "kernels/gemm/residue_cut_amx.h"
#include "kernels/gemm/residues_inl.h"

namespace etalon::amx {

void pack_residues(const float* const* rows, std::int64_t k, bool right, std::uint8_t* to,
                   std::int64_t plane, ResidueNorms& norms) {
  const std::int64_t steps = (k + kResidueTileStep - 1) / kResidueTileStep;
  for (int r = 0; r < kResidueTileRows; ++r) {
    double squares = 0;
    if (rows[r] != nullptr) {
      __m512d sum[2] = {_mm512_setzero_pd(), _mm512_setzero_pd()};
      for (std::int64_t i = 0; i < k; i += 16) {
        const auto mask = static_cast<__mmask16>(k - i >= 16 ? 0xffffU : (1U << (k - i)) - 1);
        const __m512 x = _mm512_maskz_loadu_ps(mask, rows[r] + i);
        const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(x)),
                      high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1));
        sum[0] = _mm512_fmadd_pd(low, low, sum[0]);
        sum[1] = _mm512_fmadd_pd(high, high, sum[1]);
      }
      squares = _mm512_reduce_add_pd(_mm512_add_pd(sum[0], sum[1]));
    }
    const double unit = residue_unit(squares);
    double rests = 0;
    std::uint8_t* row = to + r * kResidueTileStep;
    if (rows[r] == nullptr || unit == 0) {
      for (int i = 0; i < kResiduePlanes; ++i)
        for (std::int64_t t = 0; t < steps; ++t)
          _mm512_store_si512(row + i * plane + t * kResidueTileBytes, _mm512_setzero_si512());
    } else {
      const __m512d scale = _mm512_set1_pd(residue_inverse(unit));
      __m512d rest = _mm512_setzero_pd();
      for (std::int64_t t = 0; t < steps; ++t) {
        __m512 x[4];
        load_values(rows[r] + t * kResidueTileStep, k - t * kResidueTileStep, x);
        std::uint8_t* at = row + t * kResidueTileBytes;
        const auto store = [&](int i, __m512i bytes)
                               ETALON_INLINE_LAMBDA { _mm512_store_si512(at + i * plane, bytes); };
        if (right)
          cut_values<true>(x, scale, rest, store);
        else
          cut_values<false>(x, scale, rest, store);
      }
      rests = _mm512_reduce_add_pd(rest);
    }
    const ResidueNorm n = residue_norm(squares, rests, 0);
    norms.unit[r] = n.unit;
    norms.norm[r] = n.norm;
    norms.rest[r] = n.rest;
  }
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
  const __m512d scale = _mm512_set1_pd(residue_inverse(unit));
  __m512d rest = _mm512_setzero_pd();
  const auto cut = [&](const float* from, int count, std::uint8_t* dst) {
    __m512 x[4];
    load_values(from, count, x);
    const __mmask64 bytes = ~0ULL >> (count < kResidueTileStep ? kResidueTileStep - count : 0);
    cut_values<false>(x, scale, rest, [&](int i, __m512i v) ETALON_INLINE_LAMBDA {
      _mm512_mask_storeu_epi8(dst + i * plane, bytes, v);
    });
  };
  if (run) {
    const int values = block.pixels * block.channels;
    for (int i = 0; i < values; i += kResidueTileStep) cut(turned + i, values - i, to + i);
  } else {
    for (int i = 0; i < block.pixels; ++i, to += pitch)
      cut(turned + i * kResidueTileStep, block.channels, to);
  }
  return _mm512_reduce_add_pd(rest);
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
