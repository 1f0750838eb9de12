#include "kernels/normalization/exact_lanes_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct Lanes : F64 {
  using Narrow = __m256;
  ETALON_INLINE static Reg abs(Reg v) { return _mm512_abs_pd(v); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm512_sqrt_pd(v); }
  ETALON_INLINE static Narrow narrow(Reg v) { return _mm512_cvtpd_ps(v); }
  ETALON_INLINE static std::uint32_t same(Narrow a, Narrow b) {
    return _mm256_cmp_ps_mask(a, b, _CMP_EQ_OQ) &
           _mm256_cmpeq_epi32_mask(_mm256_castps_si256(a), _mm256_castps_si256(b));
  }
  ETALON_INLINE static void store_narrow(float* to, Narrow v, int n) {
    _mm256_mask_storeu_ps(to, first(n), v);
  }
};

}  // namespace

const ExactNormLanes& exact_norm_lanes() {
  static const ExactNormLanes lanes = simd::make_exact_norm_lanes<Lanes>();
  return lanes;
}

}  // namespace etalon::avx512
