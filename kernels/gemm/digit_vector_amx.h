// Digits of values in registers (digit_tile.h): cut with AVX-512 VBMI,
// their squares summed with VNNI. For files compiled for AMX.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/digit_tile.h"
#include "kernels/gemm/residue_cut_amx.h"
#include "kernels/simd/unroll.h"

namespace etalon::amx {

// Bytes d and d + 8 of every quadword, for the pair of vectors that vpermi2b reads.
struct alignas(64) ByteIndex {
  std::uint8_t four[64], fifth[64];
  std::uint8_t pairs[64], fifth_pairs[64];  // byte d of quadword q of either, side by side
};
constexpr ByteIndex make_index() {
  ByteIndex index{};
  for (int d = 0; d < 4; ++d)
    for (int q = 0; q < 16; ++q) index.four[d * 16 + q] = static_cast<std::uint8_t>(q * 8 + d);
  for (int p = 0; p < 4; ++p)
    for (int q = 0; q < 16; ++q) index.fifth[p * 16 + q] = static_cast<std::uint8_t>(q * 8 + 4);
  for (int d = 0; d < 4; ++d)
    for (int q = 0; q < 8; ++q)
      for (int j = 0; j < 2; ++j) {
        index.pairs[d * 16 + q * 2 + j] = static_cast<std::uint8_t>(j * 64 + q * 8 + d);
        index.fifth_pairs[d * 16 + q * 2 + j] = static_cast<std::uint8_t>(j * 64 + q * 8 + 4);
      }
  return index;
}
inline constexpr ByteIndex kIndex = make_index();

struct RowSums {
  __m512i square[4], plain[4];  // int32: sums of (d + 128) d and of d
  __m512d norm, rest;
};

// Planes put together: quarter i of p[j] is quarter j of plane i, quarter j of last[j] that of
// plane 4, all of them biased. Sums go on where they are asked for.
template <bool resume, class Sums>
ETALON_INLINE void planes_of(const __m512i* p, const __m512i* last, Sums& sums, __m512i* out) {
  const __m512i low01 = _mm512_shuffle_i32x4(p[0], p[1], 0x44),
                low23 = _mm512_shuffle_i32x4(p[2], p[3], 0x44),
                high01 = _mm512_shuffle_i32x4(p[0], p[1], 0xee),
                high23 = _mm512_shuffle_i32x4(p[2], p[3], 0xee);
  __m512i u[5];
  u[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
  u[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
  u[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
  u[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  u[4] = _mm512_mask_blend_epi64(0xf0, _mm512_mask_blend_epi64(0x0c, last[0], last[1]),
                                 _mm512_mask_blend_epi64(0xc0, last[2], last[3]));
  const __m512i half = _mm512_set1_epi8(-128), ones = _mm512_set1_epi8(1);
  out[4] = _mm512_xor_si512(u[4], half);
  simd::unroll<4>([&](auto d) ETALON_INLINE_LAMBDA {
    out[d] = _mm512_xor_si512(u[d], half);
    if constexpr (resume) {
      sums.square[d] = _mm512_dpbusd_epi32(sums.square[d], u[d], out[d]);
      sums.plain[d] = _mm512_dpbusd_epi32(sums.plain[d], ones, out[d]);
    }
  });
}

// Up to 64 values of a row: five vectors of digits; sums go on, or are only what rounding left.
template <bool resume = true>
ETALON_INLINE void digits_of(const float* from, std::int64_t left, __m512d scale, RowSums& sums,
                             __m512i* out) {
  const __m512i bias = _mm512_set1_epi64(0x8080808080);
  __m512i biased[8];
  simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
    const std::int64_t there = left - v * 16;
    const __m512 x = there >= 16  ? _mm512_loadu_ps(from + v * 16)
                     : there <= 0 ? _mm512_setzero_ps()
                                  : _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << there) - 1),
                                                          from + v * 16);
    const __m512d halves[2] = {_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), scale),
                               _mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), scale)};
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const __m512d z = halves[h], r = _mm512_reduce_pd(z, 0);
      if constexpr (resume) {
        sums.norm = _mm512_fmadd_pd(z, z, sums.norm);
        sums.rest = _mm512_fmadd_pd(r, r, sums.rest);
      } else {
        sums.rest = v + h == 0 ? _mm512_mul_pd(r, r) : _mm512_fmadd_pd(r, r, sums.rest);
      }
      biased[v * 2 + h] = _mm512_add_epi64(_mm512_cvtpd_epi64(z), bias);
    });
  });
  const __m512i four = _mm512_load_si512(kIndex.four), fifth = _mm512_load_si512(kIndex.fifth);
  __m512i p[4], last[4];
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    p[i] = _mm512_permutex2var_epi8(biased[2 * i], four, biased[2 * i + 1]);
    last[i] = _mm512_permutex2var_epi8(biased[2 * i], fifth, biased[2 * i + 1]);
  });
  planes_of<resume>(p, last, sums, out);
}

}  // namespace etalon::amx
