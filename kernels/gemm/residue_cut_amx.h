// Bytes of values in registers, for all ways into planes (residue_tile.h): 64 values become eleven
// vectors. For files compiled for AMX.
//
// X + 2^47 (residue_cut) is six bytes, the uppermost in [0x78, 0x87] because |X| < 2^43. A sum of
// bytes times weights w_j, with w_j = f 256^j modulo m, is f X modulo m plus what 2^47 makes of it.
// The factor f is free, as the join undoes it (residue_join_inl.h): the one is taken whose weights
// are smallest, so that the sum, moved by a multiple of m to be positive, has 16 bits. Of those the
// upper byte counts 256 = d modulo m, d = 256 - m: low + d high is the same modulo m, and after two
// to four such folds it is a byte. A byte may exceed m - 1: any representative will do.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/residue_tile.h"
#include "kernels/gemm/residues.h"
#include "kernels/simd/unroll.h"

namespace etalon::amx {

// Of one plane. What it multiplies X by, `factor`, is undone by the join.
struct ResiduePlane {
  std::int32_t low = 0, high = 0, add = 0;     // weights of the bytes of each dword, and an addend
  std::int32_t fold = 0;                       // 1 and d in turns
  int m = 0, factor = 1, folds = 0, most = 0;  // most: of the sum
};
constexpr std::int32_t four_weights(int a, int b, int c, int d) {
  return static_cast<std::int32_t>(
      (static_cast<std::uint32_t>(a) & 255) | (static_cast<std::uint32_t>(b) & 255) << 8 |
      (static_cast<std::uint32_t>(c) & 255) << 16 | (static_cast<std::uint32_t>(d) & 255) << 24);
}
constexpr ResiduePlane residue_plane(int m, int factor) {
  ResiduePlane p{.m = m, .factor = factor};
  int w[6] = {}, weight = factor, least = 0;
  for (int j = 0; j < 6; ++j, weight = weight * 256 % m) {
    w[j] = weight > m / 2 ? weight - m : weight;
    const int from = j < 5 ? 0 : 0x78, to = j < 5 ? 255 : 0x87;
    least += w[j] < 0 ? w[j] * to : w[j] * from;
    p.most += w[j] < 0 ? w[j] * from : w[j] * to;
  }
  p.low = four_weights(w[0], w[1], w[2], w[3]);
  p.high = four_weights(w[4], w[5], 0, 0);
  // The least addend that is -2^47 factor modulo m and leaves nothing negative.
  std::uint64_t middle = (std::uint64_t{1} << 47) % static_cast<unsigned>(m);
  middle = middle * static_cast<unsigned>(factor) % static_cast<unsigned>(m);
  p.add = -least + ((least - static_cast<int>(middle)) % m + m) % m;
  p.most += p.add;
  const int d = 256 - m;
  p.fold = four_weights(1, d, 1, d);
  // The most of low + d high over all numbers up to `most`.
  for (int most = p.most; most > 255; ++p.folds) {
    const int high = most >> 8, below = 255 + d * (high - 1), at = (most & 255) + d * high;
    most = below > at ? below : at;
  }
  return p;
}
struct ResiduePlanes {
  ResiduePlane of[kResiduePlanes];
};
constexpr ResiduePlanes residue_planes() {
  ResiduePlanes planes;
  for (int i = 0; i < kResiduePlanes; ++i) {
    const int m = static_cast<int>(kResidueModuli[i]);
    planes.of[i] = residue_plane(m, 1);
    for (int factor = 2; factor < m && m != 256; ++factor) {  // 256: a byte of X itself
      int a = m, b = factor;
      while (b != 0) {
        const int left = a % b;
        a = b;
        b = left;
      }
      if (a != 1) continue;
      const ResiduePlane other = residue_plane(m, factor);
      if (other.most < planes.of[i].most) planes.of[i] = other;
    }
  }
  return planes;
}
inline constexpr ResiduePlanes kResidueCut = residue_planes();
static_assert([] {
  for (const ResiduePlane& p : kResidueCut.of)
    if (p.m != 256 && (p.most > 65535 || p.folds > 4)) return false;
  return kResidueCut.of[0].m == 256;
}());

// Where the four values of a vector's quarter go after packing: four vectors that follow one
// another along a row; or four of sixteen columns each, whose values stand side by side for a
// column, as the tile instruction wants its right operand.
struct alignas(64) CutIndex {
  std::int32_t even[16], odd[16], along[16];
  std::int8_t across[64];
};
constexpr CutIndex cut_index() {
  CutIndex index{};
  for (int i = 0; i < 16; ++i) {
    index.even[i] = 2 * i;
    index.odd[i] = 2 * i + 1;
    index.along[i] = i % 4 * 4 + i / 4;
  }
  for (int i = 0; i < 64; ++i) index.across[i] = static_cast<std::int8_t>(i % 4 * 4 + i / 4 % 4);
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

// Lanes [8 h, 8 h + 8) of a vector of `there` values at `from`, the others 0.
ETALON_INLINE __m512d load_eight(const float* from, std::int64_t there, int h) {
  const std::int64_t left = there - 8 * h;
  if (left >= 8) return _mm512_cvtps_pd(_mm256_loadu_ps(from + 8 * h));
  if (left <= 0) return _mm512_setzero_pd();
  return _mm512_cvtps_pd(
      _mm256_maskz_loadu_ps(static_cast<__mmask8>((1U << left) - 1), from + 8 * h));
}

// Of 64 values, eight of which load(v, h) gives: half h of vector v. store(i, bytes) takes plane i
// of them times scale[h]; rest[h] goes on by the squares of what rounding left.
template <bool across, class Load, class Store>
ETALON_INLINE void cut_values(const Load& load, const __m512d* scale, __m512d* rest,
                              const Store& store) {
  const __m512d middle = _mm512_set1_pd(0x1.8p52 + 0x1p47);
  const __m512i even = _mm512_load_si512(kCutIndex.even), odd = _mm512_load_si512(kCutIndex.odd);
  __m512i low[4], high[4];
  simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
    __m512i bits[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      // x / p is exact, so each fma rounds as often as an addition would.
      const __m512d x = load(v, h), t = _mm512_fmadd_pd(x, scale[h], middle),
                    r = _mm512_fmsub_pd(x, scale[h], _mm512_sub_pd(t, middle));
      rest[h] = _mm512_fmadd_pd(r, r, rest[h]);
      bits[h] = _mm512_castpd_si512(t);
    });
    low[v] = _mm512_permutex2var_epi32(bits[0], even, bits[1]);
    high[v] = _mm512_permutex2var_epi32(bits[0], odd, bits[1]);
  });
  const __m512i order = _mm512_load_si512(across ? static_cast<const void*>(kCutIndex.across)
                                                 : static_cast<const void*>(kCutIndex.along));
  const ResiduePlanes* planes = &kResidueCut;
  asm("" : "+r"(planes));  // weights are read from memory, where a broadcast is free
  simd::unroll<kResiduePlanes>([&](auto i) ETALON_INLINE_LAMBDA {
    constexpr ResiduePlane form = kResidueCut.of[i];
    const ResiduePlane& p = planes->of[i];
    __m512i y[4];
    simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
      y[v] = form.m == 256
                 ? _mm512_and_si512(low[v], _mm512_set1_epi32(255))
                 : _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(_mm512_set1_epi32(p.add), low[v],
                                                           _mm512_set1_epi32(p.low)),
                                       high[v], _mm512_set1_epi32(p.high));
    });
    __m512i words[2] = {_mm512_packus_epi32(y[0], y[1]), _mm512_packus_epi32(y[2], y[3])};
    const __m512i fold = _mm512_set1_epi32(p.fold);
    if constexpr (form.m != 256)
      simd::unroll<form.folds>([&](auto) ETALON_INLINE_LAMBDA {
        words[0] = _mm512_maddubs_epi16(words[0], fold);
        words[1] = _mm512_maddubs_epi16(words[1], fold);
      });
    const __m512i bytes = _mm512_packus_epi16(words[0], words[1]);
    store(i, across ? _mm512_shuffle_epi8(bytes, order) : _mm512_permutexvar_epi32(order, bytes));
  });
}

}  // namespace etalon::amx
