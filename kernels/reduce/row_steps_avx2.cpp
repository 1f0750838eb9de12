// row_steps.h for avx2.
#include "kernels/reduce/row_steps_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon {
namespace avx2 {
namespace {

struct Rows : F32 {
  struct Divisor {
    static constexpr bool kDividesSecond = false;
    Reg s;
    explicit Divisor(float divisor) : s(set1(divisor)) {}
    // The processor's division is as quick here; it gives NaN where it must.
    ETALON_INLINE static bool quick_for(Reg /*a*/, Reg /*b*/) { return false; }
    ETALON_INLINE Reg quick(Reg a) const { return div(a, s); }
    ETALON_INLINE Reg divide(Reg a) const { return div(a, s); }
  };
  ETALON_INLINE static float most(Reg s) {
    const __m128 q = _mm_max_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    const __m128 two = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
  ETALON_INLINE static float tree(Reg s) {
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1));
    const __m128 two = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace
}  // namespace avx2

const RowSteps& row_steps_avx2() {
  static constexpr RowSteps kSteps = simd::make_row_steps<avx2::Rows>();
  return kSteps;
}

}  // namespace etalon
