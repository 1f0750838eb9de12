#include "kernels/normalization/lrn_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct Lanes : F32 {
  // a b is taken from c, and c from a b.
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm512_fnmadd_ps(a, b, c); }
  ETALON_INLINE static Reg fms(Reg a, Reg b, Reg c) { return _mm512_fmsub_ps(a, b, c); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm512_sqrt_ps(v); }
  ETALON_INLINE static Mask equal(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
  ETALON_INLINE static Mask at_least(Reg v, float least) {
    return _mm512_cmp_ps_mask(v, set1(least), _CMP_GE_OQ);
  }
  // One step of Newton's from the processor's inverse root, within 2^-14, so that the unit that
  // takes roots and divides, the slowest here, has two things to do instead of three.
  ETALON_INLINE static void roots(Reg b, Reg& s, Reg& inverse) {
    inverse = _mm512_rsqrt14_ps(b);
    const Reg near = mul(b, inverse);
    s = fma(fnma(near, near, b), mul(inverse, set1(0.5F)), near);
  }
  // Half a vector of powers by f64 roots: the interval of lrn.h.
  static void by_f64_roots(const float* base, float* low, float* high) {
    const __m512d root = _mm512_sqrt_pd(_mm512_cvtps_pd(_mm256_load_ps(base)));
    const __m512d p = _mm512_mul_pd(root, _mm512_sqrt_pd(root));
    _mm256_store_ps(low, _mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_set1_pd(1 - 0x1p-50))));
    _mm256_store_ps(high, _mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_set1_pd(1 + 0x1p-50))));
  }
};

}  // namespace

std::int64_t lrn(const LrnCall& c) { return simd::lrn_of<Lanes>(c); }

}  // namespace etalon::avx512
