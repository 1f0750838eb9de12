// row_steps.h for avx512.
#include "kernels/reduce/row_steps_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon {
namespace avx512 {
namespace {

template <bool kAmd>
struct Rows : F32 {
  // a / s, to nearest. A division of 16 floats occupies its unit for 16 cycles on Intel's Sapphire
  // Rapids, these four operations the others for two; on AMD's Zen 4, whose division takes 6 and
  // whose operations 4, every second vector is divided, beside the others' operations.
  // r = RN(1/s), and e = 1 - r s is exact; with t = RN(r e) the sum r + t is 1/s but for 2^-47 of
  // it, so q = RN(a r + RN(a t)) is one of the two neighbours of a/s: before its rounding it errs
  // by less than 2^-46 of it. Markstein's theorem (IBM J. Res. Dev. 34, 1990; Muller et al.,
  // Handbook of Floating-Point Arithmetic, 4.7) says that of such a q, with r correctly rounded, q
  // + (a - q s) r is a/s correctly rounded, where nothing over- or underflows, so that the
  // remainder is exact: s and a lie between 2^-60 and 2^60. Other vectors are divided by the
  // processor.
  struct Divisor {
    static constexpr bool kDividesSecond = kAmd;
    Reg s, r, t;
    bool moderate;
    explicit Divisor(float divisor)
        : s(set1(divisor)), moderate(divisor >= 0x1p-60F && divisor < 0x1p60F) {
      const float inverse = 1.0F / divisor;
      r = set1(inverse);
      t = set1(inverse * __builtin_fmaf(-inverse, divisor, 1.0F));
    }
    // The size of a above 2^-60, as an integer.
    ETALON_INLINE static __m512i above(Reg a) {
      return _mm512_sub_epi32(
          _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff)),
          _mm512_set1_epi32((127 - 60) << 23));
    }
    ETALON_INLINE bool quick_for(Reg a, Reg b) const {
      const __m512i most = _mm512_max_epu32(above(a), above(b));
      const Mask fits = _mm512_cmplt_epu32_mask(most, _mm512_set1_epi32(120 << 23));
      return moderate && _mm512_kortestc(fits, fits) != 0;
    }
    ETALON_INLINE Reg quick(Reg a) const {
      const Reg q = fma(a, r, mul(a, t));
      return fma(_mm512_fnmadd_ps(q, s, a), r, q);
    }
    ETALON_INLINE Reg divide(Reg a) const { return div(a, s); }
  };
  ETALON_INLINE static float most(Reg s) {
    const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 two = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  ETALON_INLINE static float tree(Reg s) {
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    const __m128 two = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace
}  // namespace avx512

const RowSteps& row_steps_avx512(bool amd) {
  static constexpr RowSteps kAmd = simd::make_row_steps<avx512::Rows<true>>();
  static constexpr RowSteps kOther = simd::make_row_steps<avx512::Rows<false>>();
  return amd ? kAmd : kOther;
}

}  // namespace etalon
