#include "kernels/normalization/lrn.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

// b^(3/4) of four lanes, less and more by the margin, rounded to f32.
void power_bounds(__m128 base, __m128& low, __m128& high) {
  const __m256d root = _mm256_sqrt_pd(_mm256_cvtps_pd(base));
  const __m256d p = _mm256_mul_pd(root, _mm256_sqrt_pd(root));
  low = _mm256_cvtpd_ps(_mm256_mul_pd(p, _mm256_set1_pd(1 - 0x1p-50)));
  high = _mm256_cvtpd_ps(_mm256_mul_pd(p, _mm256_set1_pd(1 + 0x1p-50)));
}

std::int64_t channel(const LrnCall& c) {
  using V = F32;
  std::int64_t computed = 0;
  for (std::int64_t i = 0; i < c.n; i += V::lanes) {
    const int lanes = static_cast<int>(c.n - i < V::lanes ? c.n - i : V::lanes);
    const V::Mask m = V::first(lanes);
    V::Reg sum = V::zero();
    for (std::int64_t d = c.first; d <= c.last; ++d) {
      const V::Reg x = V::load(c.x + d * c.step + i, m);
      sum = V::fma(x, x, sum);
    }
    const V::Reg base = V::fma(V::set1(c.factor), sum, V::set1(c.bias));
    __m128 low[2], high[2];
    power_bounds(_mm256_castps256_ps128(base), low[0], high[0]);
    power_bounds(_mm256_extractf128_ps(base, 1), low[1], high[1]);
    V::Reg power = _mm256_set_m128(low[1], low[0]);
    const V::Reg other = _mm256_set_m128(high[1], high[0]);
    const V::Reg decided = _mm256_and_ps(_mm256_cmp_ps(power, other, _CMP_EQ_OQ),
                                         _mm256_cmp_ps(base, V::zero(), _CMP_GT_OQ));
    const std::uint32_t open =
        ~static_cast<std::uint32_t>(_mm256_movemask_ps(decided)) & ((1U << lanes) - 1U);
    if (open != 0) {
      alignas(32) float bases[V::lanes], powers[V::lanes];
      _mm256_store_ps(bases, base);
      _mm256_store_ps(powers, power);
      for (int lane = 0; lane < lanes; ++lane)
        if ((open >> lane & 1U) != 0) {
          powers[lane] = c.power(bases[lane]);
          ++computed;
        }
      power = _mm256_load_ps(powers);
    }
    V::store(c.y + i, V::canonical(V::div(V::load(c.x + i, m), power)), m);
  }
  return computed;
}

}  // namespace

std::int64_t lrn(const LrnCall& c) {
  std::int64_t computed = 0;
  for (LrnCall one = c; one.channels > 0; --one.channels) {
    computed += channel(one);
    one.x += c.step;
    one.y += c.step;
  }
  return computed;
}

}  // namespace etalon::avx2
