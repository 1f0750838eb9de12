// The vector type of the f64 first passes (exact_lanes_inl.h here and in ../normalization) on one
// instruction set.
#pragma once

#include "kernels/gemm/exact_lanes.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

struct ExactF64 : F64 {
  using Narrow = __m256;
  ETALON_INLINE static Reg widen_low(__m512 v) {
    return _mm512_cvtps_pd(_mm512_castps512_ps256(v));
  }
  ETALON_INLINE static Reg widen_high(__m512 v) {
    return _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1));
  }
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
  ETALON_INLINE static std::uint32_t apart(__m512 a, __m512 b, const ExactCells& cells) {
    const __m512i x = _mm512_castps_si512(a), y = _mm512_castps_si512(b),
                  half = _mm512_set1_epi32(static_cast<int>(cells.half)),
                  less = _mm512_sub_epi32(half, _mm512_set1_epi32(1)),
                  bits = _mm512_or_si512(
                      _mm512_xor_si512(_mm512_add_epi32(x, half), _mm512_add_epi32(y, half)),
                      _mm512_xor_si512(_mm512_add_epi32(x, less), _mm512_add_epi32(y, less)));
    const __mmask16 small = _mm512_cmplt_epu32_mask(
        _mm512_add_epi32(x, x), _mm512_set1_epi32(static_cast<int>(cells.least)));
    return _mm512_test_epi32_mask(bits, _mm512_set1_epi32(static_cast<int>(cells.mask))) |
           _mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q) | _mm512_mask_cmpneq_epi32_mask(small, x, y);
  }
  ETALON_INLINE static void store_both(float* to, __m512 v) { _mm512_storeu_ps(to, v); }
  // v[0][0] .. v[n - 1][0], v[0][1] .. v[n - 1][7]
  template <int n>
  ETALON_INLINE static void store_turned(float* to, const Narrow* v) {
    static_assert(n >= 2 && n <= 4);
    if constexpr (n == 2) {
      const __m256 low = _mm256_unpacklo_ps(v[0], v[1]), high = _mm256_unpackhi_ps(v[0], v[1]);
      _mm256_storeu_ps(to, _mm256_permute2f128_ps(low, high, 0x20));
      _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(low, high, 0x31));
    } else if constexpr (n == 3) {
      const __m512 two = both(v[0], v[1]), last = _mm512_castps256_ps512(v[2]);
      const __m512i low = _mm512_setr_epi32(0, 8, 16, 1, 9, 17, 2, 10, 18, 3, 11, 19, 4, 12, 20, 5),
                    high = _mm512_setr_epi32(13, 21, 6, 14, 22, 7, 15, 23, 0, 0, 0, 0, 0, 0, 0, 0);
      _mm512_storeu_ps(to, _mm512_permutex2var_ps(two, low, last));
      _mm256_storeu_ps(to + 16, _mm512_castps512_ps256(_mm512_permutex2var_ps(two, high, last)));
    } else {
      const __m256d t[4] = {_mm256_castps_pd(_mm256_unpacklo_ps(v[0], v[1])),
                            _mm256_castps_pd(_mm256_unpacklo_ps(v[2], v[3])),
                            _mm256_castps_pd(_mm256_unpackhi_ps(v[0], v[1])),
                            _mm256_castps_pd(_mm256_unpackhi_ps(v[2], v[3]))};
      const __m256 r[4] = {_mm256_castpd_ps(_mm256_unpacklo_pd(t[0], t[1])),
                           _mm256_castpd_ps(_mm256_unpackhi_pd(t[0], t[1])),
                           _mm256_castpd_ps(_mm256_unpacklo_pd(t[2], t[3])),
                           _mm256_castpd_ps(_mm256_unpackhi_pd(t[2], t[3]))};
      _mm256_storeu_ps(to, _mm256_permute2f128_ps(r[0], r[1], 0x20));
      _mm256_storeu_ps(to + 8, _mm256_permute2f128_ps(r[2], r[3], 0x20));
      _mm256_storeu_ps(to + 16, _mm256_permute2f128_ps(r[0], r[1], 0x31));
      _mm256_storeu_ps(to + 24, _mm256_permute2f128_ps(r[2], r[3], 0x31));
    }
  }
};

}  // namespace etalon::avx512
