#include "kernels/normalization/exact_lanes_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct Lanes : F64 {
  using Narrow = __m128;
  ETALON_INLINE static Reg abs(Reg v) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm256_sqrt_pd(v); }
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
};

}  // namespace

const ExactNormLanes& exact_norm_lanes() {
  static const ExactNormLanes lanes = simd::make_exact_norm_lanes<Lanes>();
  return lanes;
}

}  // namespace etalon::avx2
