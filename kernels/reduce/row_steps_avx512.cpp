// row_steps.h for avx512.
#include "kernels/reduce/row_steps_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon {
namespace avx512 {
namespace {

struct Rows : F32 {
  // a / s, to nearest. A division of 16 floats occupies its unit for 16 cycles, these products for
  // three. With r = RN(1/s), q = RN(a r) errs by less than 2^-22.9; q + (a - q s) r by less than
  // 2^-45 before its rounding, so it is one of the two neighbours of a/s; and Markstein's theorem
  // (IBM J. Res. Dev. 34, 1990; Muller et al., Handbook of Floating-Point Arithmetic, 4.7) says
  // that of such a q the same step, whose remainder is exact, is a/s correctly rounded, where
  // nothing over- or underflows: s and a lie between 2^-60 and 2^60. Other vectors are divided by
  // the processor.
  struct Divisor {
    Reg s, r;
    bool quick;
    explicit Divisor(float divisor)
        : s(set1(divisor)),
          r(set1(1.0F / divisor)),
          quick(divisor >= 0x1p-60F && divisor < 0x1p60F) {}
    ETALON_INLINE Reg divide(Reg a) const {
      const __m512i size = _mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff));
      const Mask fits =
          _mm512_cmplt_epu32_mask(_mm512_sub_epi32(size, _mm512_set1_epi32((127 - 60) << 23)),
                                  _mm512_set1_epi32(120 << 23));
      if (!quick || _mm512_kortestc(fits, fits) == 0) [[unlikely]]
        return div(a, s);
      const Reg q = mul(a, r);
      const Reg near = fma(_mm512_fnmadd_ps(q, s, a), r, q);
      return fma(_mm512_fnmadd_ps(near, s, a), r, near);
    }
  };
};

}  // namespace
}  // namespace avx512

const RowSteps& row_steps_avx512() {
  static constexpr RowSteps kSteps = simd::make_row_steps<avx512::Rows>();
  return kSteps;
}

}  // namespace etalon
