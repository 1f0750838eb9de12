#include "kernels/normalization/lrn.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

// Both ends of an interval around b^(3/4), rounded to f32.
struct Bounds {
  __m256 low, high;
};

Bounds around(__m512d p, double margin) {
  return {_mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_set1_pd(1 - margin))),
          _mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_set1_pd(1 + margin)))};
}

// v^(-1/2). The processor's y = v^(-1/2) (1 + e) has |e| <= 2^-14, so t = 1 - v y^2 is below
// 2^-12.99, and (1 - t)^(-1/2) is cut behind t^2: relative error below 5/16 t^3 + 4 * 2^-53 <
// 2^-40.5.
__m512d inverse_root(__m512d v) {
  const __m512d y = _mm512_rsqrt14_pd(v);
  const __m512d t = _mm512_fnmadd_pd(_mm512_mul_pd(v, y), y, _mm512_set1_pd(1));
  const __m512d c = _mm512_fmadd_pd(_mm512_set1_pd(0.375), t, _mm512_set1_pd(0.5));
  return _mm512_fmadd_pd(_mm512_mul_pd(y, t), c, y);
}

// b * (b * b^(-1/2))^(-1/2): half of one error of inverse_root and one whole, below 2^-39.9.
Bounds by_inverse_roots(__m256 base) {
  const __m512d b = _mm512_cvtps_pd(base);
  return around(_mm512_mul_pd(b, inverse_root(_mm512_mul_pd(b, inverse_root(b)))), 0x1p-39);
}

// By the roots themselves: the interval of lrn.h.
Bounds by_roots(__m256 base) {
  const __m512d root = _mm512_sqrt_pd(_mm512_cvtps_pd(base));
  return around(_mm512_mul_pd(root, _mm512_sqrt_pd(root)), 0x1p-50);
}

__m512 join(__m256 low, __m256 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(low), high, 1);
}

// The lower ends, and the lanes in which both are one.
template <class F>
__m512 decide(__m512 base, F bounds, __mmask16& decided) {
  const Bounds a = bounds(_mm512_castps512_ps256(base));
  const Bounds b = bounds(_mm512_extractf32x8_ps(base, 1));
  const __m512 low = join(a.low, b.low);
  decided = _mm512_mask_cmp_ps_mask(_mm512_cmp_ps_mask(base, _mm512_setzero_ps(), _CMP_GT_OQ), low,
                                    join(a.high, b.high), _CMP_EQ_OQ);
  return low;
}

}  // namespace

std::int64_t lrn(const LrnCall& c) {
  using V = F32;
  std::int64_t computed = 0;
  for (std::int64_t i = 0; i < c.n; i += V::lanes) {
    const V::Mask m = V::first(static_cast<int>(c.n - i < V::lanes ? c.n - i : V::lanes));
    V::Reg sum = V::zero();
    for (std::int64_t d = c.first; d <= c.last; ++d) {
      const V::Reg x = V::load(c.x + d * c.step + i, m);
      sum = V::fma(x, x, sum);
    }
    const V::Reg base = V::fma(V::set1(c.factor), sum, V::set1(c.bias));
    V::Mask decided;
    V::Reg power = decide(base, by_inverse_roots, decided);
    if ((V::to_bits(m) & ~V::to_bits(decided)) != 0) [[unlikely]] {
      power = decide(base, by_roots, decided);
      const std::uint32_t open = V::to_bits(m) & ~V::to_bits(decided);
      alignas(64) float bases[V::lanes], powers[V::lanes];
      V::store(bases, base);
      V::store(powers, power);
      for (int lane = 0; lane < V::lanes; ++lane)
        if ((open >> lane & 1U) != 0) {
          powers[lane] = c.power(bases[lane]);
          ++computed;
        }
      power = V::load(powers);
    }
    V::store(c.y + i, V::canonical(V::div(V::load(c.x + i, m), power)), m);
  }
  return computed;
}

}  // namespace etalon::avx512
