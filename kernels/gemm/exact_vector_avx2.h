// The vector type of the f64 first passes (exact_lanes_inl.h here and in ../normalization) on one
// instruction set.
#pragma once

#include "kernels/gemm/exact_lanes.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

struct ExactF64 : F64 {
  using Narrow = __m128;
  ETALON_INLINE static Reg widen_low(__m256 v) {
    return _mm256_cvtps_pd(_mm256_castps256_ps128(v));
  }
  ETALON_INLINE static Reg widen_high(__m256 v) {
    return _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
  }
  ETALON_INLINE static Reg abs(Reg v) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v); }
  ETALON_INLINE static Narrow narrow(Reg v) { return _mm256_cvtpd_ps(v); }
  ETALON_INLINE static std::uint32_t same(Narrow a, Narrow b) {
    const __m128 bits = _mm_castsi128_ps(_mm_cmpeq_epi32(_mm_castps_si128(a), _mm_castps_si128(b)));
    return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_and_ps(_mm_cmpeq_ps(a, b), bits)));
  }
  ETALON_INLINE static void store_narrow(float* to, Narrow v, int n) {
    if (n == lanes) {
      _mm_storeu_ps(to, v);
    } else {
      alignas(16) float all[lanes];
      _mm_store_ps(all, v);
      for (int i = 0; i < n; ++i) to[i] = all[i];
    }
  }
  ETALON_INLINE static __m256 both(Narrow a, Narrow b) { return _mm256_set_m128(b, a); }
  ETALON_INLINE static std::uint32_t differ(__m256 a, __m256 b) {
    const __m256 bits =
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
    return 0xffU ^ static_cast<std::uint32_t>(
                       _mm256_movemask_ps(_mm256_and_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ), bits)));
  }
  ETALON_INLINE static std::uint32_t apart(__m256 a, __m256 b, const ExactCells& cells) {
    const __m256i x = _mm256_castps_si256(a), y = _mm256_castps_si256(b),
                  half = _mm256_set1_epi32(static_cast<int>(cells.half)),
                  zero = _mm256_setzero_si256(),
                  mask = _mm256_set1_epi32(static_cast<int>(cells.mask)),
                  less = _mm256_sub_epi32(half, _mm256_set1_epi32(1)),
                  bits = _mm256_or_si256(
                      _mm256_xor_si256(_mm256_add_epi32(x, half), _mm256_add_epi32(y, half)),
                      _mm256_xor_si256(_mm256_add_epi32(x, less), _mm256_add_epi32(y, less)));
    const auto below = [&](__m256i v) {  // as signed numbers: both are moved by 2^31
      const __m256i sign = _mm256_set1_epi32(static_cast<int>(0x80000000U));
      return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(cells.least ^ 0x80000000U)),
                                _mm256_xor_si256(v, sign));
    };
    const __m256i one_cell = _mm256_andnot_si256(
        _mm256_andnot_si256(_mm256_cmpeq_epi32(x, y), below(_mm256_add_epi32(x, x))),
        _mm256_cmpeq_epi32(_mm256_and_si256(bits, mask), zero));
    const __m256 decided =
        _mm256_and_ps(_mm256_castsi256_ps(one_cell), _mm256_cmp_ps(a, b, _CMP_ORD_Q));
    return 0xffU ^ static_cast<std::uint32_t>(_mm256_movemask_ps(decided));
  }
  ETALON_INLINE static void store_both(float* to, __m256 v) { _mm256_storeu_ps(to, v); }
  // v[0][0] .. v[n - 1][0], v[0][1] .. v[n - 1][3]
  template <int n>
  ETALON_INLINE static void store_turned(float* to, const Narrow* v) {
    static_assert(n >= 2 && n <= 4);
    if constexpr (n == 2) {
      _mm_storeu_ps(to, _mm_unpacklo_ps(v[0], v[1]));
      _mm_storeu_ps(to + 4, _mm_unpackhi_ps(v[0], v[1]));
    } else if constexpr (n == 3) {
      const __m128 low = _mm_unpacklo_ps(v[0], v[1]), high = _mm_unpackhi_ps(v[0], v[1]);
      // c0 c0 a1 a1; b1 b1 c1 c1; c2 c2 a3 a3; b3 b3 c3 c3 of a, b, c
      const __m128 x = _mm_shuffle_ps(v[2], low, _MM_SHUFFLE(2, 2, 0, 0)),
                   y = _mm_shuffle_ps(low, v[2], _MM_SHUFFLE(1, 1, 3, 3)),
                   z = _mm_shuffle_ps(v[2], high, _MM_SHUFFLE(2, 2, 2, 2)),
                   q = _mm_shuffle_ps(high, v[2], _MM_SHUFFLE(3, 3, 3, 3));
      _mm_storeu_ps(to, _mm_shuffle_ps(low, x, _MM_SHUFFLE(2, 0, 1, 0)));
      _mm_storeu_ps(to + 4, _mm_shuffle_ps(y, high, _MM_SHUFFLE(1, 0, 2, 0)));
      _mm_storeu_ps(to + 8, _mm_shuffle_ps(z, q, _MM_SHUFFLE(2, 0, 2, 0)));
    } else {
      __m128 r[4] = {v[0], v[1], v[2], v[3]};
      _MM_TRANSPOSE4_PS(r[0], r[1], r[2], r[3]);
      for (int i = 0; i < n; ++i) _mm_storeu_ps(to + 4 * i, r[i]);
    }
  }
};

}  // namespace etalon::avx2
