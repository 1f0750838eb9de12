// The vector type of the f64 first passes (exact_lanes_inl.h here and in ../normalization) on one
// instruction set.
#pragma once

#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

struct ExactF64 : F64 {
  using Narrow = __m256;
  ETALON_INLINE static Reg abs(Reg v) { return _mm512_abs_pd(v); }
  ETALON_INLINE static Narrow narrow(Reg v) { return _mm512_cvtpd_ps(v); }
  ETALON_INLINE static std::uint32_t same(Narrow a, Narrow b) {
    return _mm256_cmp_ps_mask(a, b, _CMP_EQ_OQ) &
           _mm256_cmpeq_epi32_mask(_mm256_castps_si256(a), _mm256_castps_si256(b));
  }
  ETALON_INLINE static void store_narrow(float* to, Narrow v, int n) {
    _mm256_mask_storeu_ps(to, first(n), v);
  }
  ETALON_INLINE static __m512 both(Narrow a, Narrow b) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(a), b, 1);
  }
  ETALON_INLINE static std::uint32_t differ(__m512 a, __m512 b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ) |
           _mm512_cmpneq_epi32_mask(_mm512_castps_si512(a), _mm512_castps_si512(b));
  }
  ETALON_INLINE static void store_both(float* to, __m512 v) { _mm512_storeu_ps(to, v); }
  // a[0], b[0], a[1], b[1], ...
  ETALON_INLINE static void store_pairs(float* to, Narrow a, Narrow b) {
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
    _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
};

}  // namespace etalon::avx512
