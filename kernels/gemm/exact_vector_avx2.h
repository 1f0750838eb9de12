// The vector type of the f64 first passes (exact_lanes_inl.h here and in ../normalization) on one
// instruction set.
#pragma once

#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

struct ExactF64 : F64 {
  using Narrow = __m128;
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
  ETALON_INLINE static void store_both(float* to, __m256 v) { _mm256_storeu_ps(to, v); }
  // a[0], b[0], a[1], b[1], ...
  ETALON_INLINE static void store_pairs(float* to, Narrow a, Narrow b) {
    _mm_storeu_ps(to, _mm_unpacklo_ps(a, b));
    _mm_storeu_ps(to + 4, _mm_unpackhi_ps(a, b));
  }
};

}  // namespace etalon::avx2
