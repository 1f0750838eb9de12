#include "kernels/normalization/lrn.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

using V = F32;

// The base of the outputs of m at x: their sum, scaled, and the bias.
ETALON_INLINE V::Reg base_at(const LrnCall& c, const float* x, V::Mask m) {
  V::Reg sum = V::zero();
  for (std::int64_t d = c.first; d <= c.last; ++d) {
    const V::Reg v = V::load(x + d * c.step, m);
    sum = V::fma(v, v, sum);
  }
  return V::fma(V::set1(c.factor), sum, V::set1(c.bias));
}

// Both ends of an interval around b^(3/4), rounded to f32; NaN for what is below 0 or not finite.
//
// s and w are the rounded roots of b and of s, r and q what their squares leave: both exact, where
// b is 2^-96 or more. With v = r / s, root(b) = s + v/2 and root(root(b)) = w + (q + v/2) / (2 w)
// up to terms of u^2, u = 2^-24, so b^(3/4) = s w + w (q/2 + 3/4 v). What that leaves out is below
// 6.2 u^2 of the power. The processor's inverse of s, within 2^-14, is corrected once, so v, at
// most 2 u s, costs 3.1 u^2; the roundings of the three sums, of at most 2.5 u, 3.5 u and 3.5 u,
// cost 9.5 u^2. Together 19 u^2; the margin is 64 u^2 = 2^-42.
struct Bounds {
  V::Reg low, high;
};
ETALON_INLINE Bounds by_f32_roots(V::Reg b) {
  constexpr float kMargin = 0x1p-42F;
  const V::Reg s = _mm512_sqrt_ps(b);
  const V::Reg w = _mm512_sqrt_ps(s);
  const V::Reg inverse = _mm512_rcp14_ps(s);
  const V::Reg about = V::mul(_mm512_fnmadd_ps(s, s, b), inverse);
  const V::Reg v = V::fma(about, _mm512_fnmadd_ps(s, inverse, V::set1(1)), about);
  const V::Reg q = _mm512_fnmadd_ps(w, w, s);
  const V::Reg p = V::mul(s, w);
  const V::Reg rest =
      V::fma(w, V::fma(v, V::set1(0.75F), V::mul(q, V::set1(0.5F))), _mm512_fmsub_ps(s, w, p));
  return {V::add(p, V::fma(p, V::set1(-kMargin), rest)),
          V::add(p, V::fma(p, V::set1(kMargin), rest))};
}

// Half a vector of powers by f64 roots: the interval of lrn.h.
void by_f64_roots(const float* base, float* low, float* high) {
  const __m512d root = _mm512_sqrt_pd(_mm512_cvtps_pd(_mm256_load_ps(base)));
  const __m512d p = _mm512_mul_pd(root, _mm512_sqrt_pd(root));
  _mm256_store_ps(low, _mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_set1_pd(1 - 0x1p-50))));
  _mm256_store_ps(high, _mm512_cvtpd_ps(_mm512_mul_pd(p, _mm512_set1_pd(1 + 0x1p-50))));
}

// The outputs of m at i by f64 roots, and by the definition where these leave a power open; returns
// how many it computed.
[[gnu::noinline]] std::int64_t settle(const LrnCall& c, std::int64_t i, V::Mask m) {
  alignas(64) float base[V::lanes], low[V::lanes], high[V::lanes];
  V::store(base, base_at(c, c.x + i, m));
  for (int half = 0; half < V::lanes; half += V::lanes / 2)
    by_f64_roots(base + half, low + half, high + half);
  std::int64_t computed = 0;
  for (int lane = 0; lane < V::lanes; ++lane)
    if ((V::to_bits(m) >> lane & 1U) != 0 && !(base[lane] > 0 && low[lane] == high[lane])) {
      low[lane] = c.power(base[lane]);
      ++computed;
    }
  V::store(c.y + i, V::canonical(V::div(V::load(c.x + i, m), V::load(low))), m);
  return computed;
}

}  // namespace

std::int64_t lrn(const LrnCall& c) {
  std::int64_t computed = 0;
  for (std::int64_t i = 0; i < c.n; i += V::lanes) {
    const V::Mask m = V::first(static_cast<int>(c.n - i < V::lanes ? c.n - i : V::lanes));
    const V::Reg base = base_at(c, c.x + i, m);
    const Bounds power = by_f32_roots(base);
    const V::Mask exact = _mm512_cmp_ps_mask(base, V::set1(0x1p-96F), _CMP_GE_OQ);
    const V::Mask decided = _mm512_mask_cmp_ps_mask(exact, power.low, power.high, _CMP_EQ_OQ);
    // Where a power is decided neither base nor x is NaN, so the quotient is canonical.
    const V::Reg y = V::div(V::load(c.x + i, m), power.low);
    if ((V::to_bits(m) & ~V::to_bits(decided)) == 0) [[likely]]
      V::store(c.y + i, y, m);
    else
      computed += settle(c, i, m);
  }
  return computed;
}

}  // namespace etalon::avx512
