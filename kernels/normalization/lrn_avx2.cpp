#include "kernels/normalization/lrn_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct Lanes : F32 {
  // a b is taken from c, and c from a b.
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm256_fnmadd_ps(a, b, c); }
  ETALON_INLINE static Reg fms(Reg a, Reg b, Reg c) { return _mm256_fmsub_ps(a, b, c); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm256_sqrt_ps(v); }
  ETALON_INLINE static Mask equal(Reg a, Reg b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ));
  }
  ETALON_INLINE static Mask at_least(Reg v, float least) {
    return _mm256_castps_si256(_mm256_cmp_ps(v, set1(least), _CMP_GE_OQ));
  }
  // The inverse root is within 1.5 * 2^-12, on Intel's processors another than on AMD's. One step
  // of Newton's from there would not round the root well enough, so that is a root of its own.
  ETALON_INLINE static void roots(Reg b, Reg& s, Reg& inverse) {
    inverse = _mm256_rsqrt_ps(b);
    s = sqrt(b);
  }
  // Half a vector of powers by f64 roots: the interval of lrn.h.
  static void by_f64_roots(const float* base, float* low, float* high) {
    const __m256d root = _mm256_sqrt_pd(_mm256_cvtps_pd(_mm_load_ps(base)));
    const __m256d p = _mm256_mul_pd(root, _mm256_sqrt_pd(root));
    _mm_store_ps(low, _mm256_cvtpd_ps(_mm256_mul_pd(p, _mm256_set1_pd(1 - 0x1p-50))));
    _mm_store_ps(high, _mm256_cvtpd_ps(_mm256_mul_pd(p, _mm256_set1_pd(1 + 0x1p-50))));
  }
};

}  // namespace

std::int64_t lrn(const LrnCall& c) { return simd::lrn_of<Lanes>(c); }

}  // namespace etalon::avx2
