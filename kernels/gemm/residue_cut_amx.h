// Bytes of values in registers, for both ways into planes (residue_tile.h): 64 values become eleven
// vectors. For files compiled for AMX.
//
// X + 2^47 (residue_cut) is six bytes; a sum of bytes times weights in [-127, 127] is X times a
// factor modulo m, plus a multiple of m that makes it positive, below 2^19; a second such sum, of
// its three bytes times 256^j modulo m, is below 2^14. Of that the upper byte's remainder comes
// from a table, and is added to the lower byte; where their sum is 256 or more, its byte is at most
// m - 2, and 256 modulo m is added. A byte may exceed m - 1 otherwise: any representative will do.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/residue_tile.h"
#include "kernels/gemm/residues.h"
#include "kernels/simd/unroll.h"

namespace etalon::amx {

struct ResidueWeights {
  std::int32_t low[kResiduePlanes] = {}, high[kResiduePlanes] = {}, add[kResiduePlanes] = {};
};
struct ResidueTables {
  ResidueWeights of[2];  // of a, of b
  std::int32_t fold[kResiduePlanes] = {}, fold_add[kResiduePlanes] = {};
  std::int32_t past[kResiduePlanes] = {};                  // 256 modulo m in each byte
  alignas(64) std::uint8_t high[kResiduePlanes][64] = {};  // 256 j modulo m
  std::int64_t c_high[kResiduePlanes] = {}, c_low[kResiduePlanes] = {};
};
constexpr int balanced(std::uint32_t x, int m) {
  const int r = static_cast<int>(x) % m;
  return r > 127 ? r - m : r;
}
constexpr std::int32_t four_weights(int a, int b, int c, int d) {
  return static_cast<std::int32_t>(
      (static_cast<std::uint32_t>(a) & 255) | (static_cast<std::uint32_t>(b) & 255) << 8 |
      (static_cast<std::uint32_t>(c) & 255) << 16 | (static_cast<std::uint32_t>(d) & 255) << 24);
}
constexpr ResidueTables residue_tables() {
  ResidueTables t;
  for (int i = 0; i < kResiduePlanes; ++i) {
    const int m = static_cast<int>(kResidueForm.m[i]);
    for (int side = 0; side < 2; ++side) {
      const ResidueBytes& bytes = side == 0 ? kResidueForm.a[i] : kResidueForm.b[i];
      int w[6] = {};
      for (int j = 0; j < 6; ++j)
        w[j] = balanced(((j < 4 ? bytes.low >> (8 * j) : bytes.high >> (8 * (j - 4))) & 255), m);
      t.of[side].low[i] = four_weights(w[0], w[1], w[2], w[3]);
      t.of[side].high[i] = four_weights(w[4], w[5], 0, 0);
      int least = 0;
      for (const int v : w) least += v < 0 ? -255 * v : 0;
      // bytes.add has the bits of a float more.
      t.of[side].add[i] =
          static_cast<int>(bytes.add - bits_of(kResidueFloat)) + (least + m - 1) / m * m;
    }
    const int second = 256 % m, third = balanced(static_cast<std::uint32_t>(65536 % m), m);
    t.fold[i] = four_weights(1, second, third, 0);
    t.fold_add[i] = third < 0 ? (-7 * third + m - 1) / m * m : 0;
    t.past[i] = four_weights(second, second, second, second);
    for (int j = 0; j < 64; ++j) t.high[i][j] = static_cast<std::uint8_t>(256 * j % m);
    const uint128 c = (uint128{1} << 104) / static_cast<unsigned>(m);
    t.c_high[i] = static_cast<std::int64_t>(c >> 52);
    t.c_low[i] = static_cast<std::int64_t>(c & ((uint128{1} << 52) - 1));
  }
  return t;
}
inline constexpr ResidueTables kResidueTables = residue_tables();

struct alignas(64) CutIndex {
  std::int32_t even[16], odd[16], order[16];
};
constexpr CutIndex cut_index() {
  CutIndex index{};
  for (int i = 0; i < 16; ++i) {
    index.even[i] = 2 * i;
    index.odd[i] = 2 * i + 1;
    index.order[i] = i % 4 * 4 + i / 4;
  }
  return index;
}
inline constexpr CutIndex kCutIndex = cut_index();

// 16x16 dwords.
ETALON_INLINE void transpose_dwords(__m512i* r) {
  __m512i t[16];
  simd::unroll<8>([&](auto n) ETALON_INLINE_LAMBDA {
    constexpr int i = n * 2;
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  });
  simd::unroll<4>([&](auto n) ETALON_INLINE_LAMBDA {
    constexpr int i = n * 4;
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  });
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  });
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  });
}

// Sixteen values each of the four vectors at `from`, zeros from `left` on.
ETALON_INLINE void load_values(const float* from, std::int64_t left, __m512* x) {
  simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
    const std::int64_t there = left - v * 16;
    x[v] = there >= 16 ? _mm512_loadu_ps(from + v * 16)
           : there <= 0
               ? _mm512_setzero_ps()
               : _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << there) - 1), from + v * 16);
  });
}

// store(i, bytes) takes plane i of 64 values times `scale`; rest goes on by the squares of what
// rounding left.
template <bool right, class Store>
ETALON_INLINE void cut_values(const __m512* x, __m512d scale, __m512d& rest, const Store& store) {
  const __m512d middle = _mm512_set1_pd(0x1.8p52 + 0x1p47);
  const __m512i even = _mm512_load_si512(kCutIndex.even), odd = _mm512_load_si512(kCutIndex.odd);
  __m512i low[4], high[4];
  simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
    const __m512d halves[2] = {
        _mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x[v])), scale),
        _mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x[v], 1)), scale)};
    __m512i bits[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const __m512d t = _mm512_add_pd(halves[h], middle),
                    r = _mm512_sub_pd(halves[h], _mm512_sub_pd(t, middle));
      rest = _mm512_fmadd_pd(r, r, rest);
      bits[h] = _mm512_castpd_si512(t);
    });
    low[v] = _mm512_permutex2var_epi32(bits[0], even, bits[1]);
    high[v] = _mm512_permutex2var_epi32(bits[0], odd, bits[1]);
  });
  const __m512i order = _mm512_load_si512(kCutIndex.order);
  const ResidueWeights& w = kResidueTables.of[right ? 1 : 0];
  for (int i = 0; i < kResiduePlanes; ++i) {
    const __m512i add = _mm512_set1_epi32(w.add[i]), w_low = _mm512_set1_epi32(w.low[i]),
                  w_high = _mm512_set1_epi32(w.high[i]),
                  fold = _mm512_set1_epi32(kResidueTables.fold[i]),
                  fold_add = _mm512_set1_epi32(kResidueTables.fold_add[i]);
    __m512i y[4];
    simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
      y[v] = _mm512_dpbusd_epi32(
          fold_add, _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(add, low[v], w_low), high[v], w_high),
          fold);
    });
    const __m512i words[2] = {_mm512_packus_epi32(y[0], y[1]), _mm512_packus_epi32(y[2], y[3])},
                  byte = _mm512_set1_epi32(0xff00ff);
    const __m512i low_bytes = _mm512_packus_epi16(_mm512_and_si512(words[0], byte),
                                                  _mm512_and_si512(words[1], byte)),
                  high_bytes = _mm512_packus_epi16(_mm512_srli_epi16(words[0], 8),
                                                   _mm512_srli_epi16(words[1], 8));
    const __m512i high_rest =
        _mm512_permutexvar_epi8(high_bytes, _mm512_load_si512(kResidueTables.high[i]));
    __m512i r = _mm512_add_epi8(low_bytes, high_rest);
    r = _mm512_mask_add_epi8(r, _mm512_cmplt_epu8_mask(r, high_rest), r,
                             _mm512_set1_epi32(kResidueTables.past[i]));
    store(i, _mm512_permutexvar_epi32(order, r));
  }
}

}  // namespace etalon::amx
