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

// The bases of kLrnChannels channels, `apart` from each other, whose windows are five wide: eight
// loads for twenty terms.
ETALON_INLINE void bases_at(const LrnCall& c, const float* x, float* bases, std::int64_t apart) {
  constexpr int kChannels = kLrnChannels, kWindow = 5;
  V::Reg v[kChannels + kWindow - 1];
  simd::unroll<kChannels + kWindow - 1>(
      [&](auto d) ETALON_INLINE_LAMBDA { v[d] = V::load(x + (c.first + d) * c.step); });
  simd::unroll<kChannels>([&](auto k) ETALON_INLINE_LAMBDA {
    V::Reg sum = V::zero();
    simd::unroll<kWindow>([&](auto d)
                              ETALON_INLINE_LAMBDA { sum = V::fma(v[k + d], v[k + d], sum); });
    V::store(bases + k * apart, V::fma(V::set1(c.factor), sum, V::set1(c.bias)));
  });
}

// Both ends of an interval around b^(3/4), rounded to f32; NaN for what is below 0 or not finite.
//
// Let u = 2^-24. s is the root of b within 0.5 of its last place and 0.1 u: one step of Newton's
// from the processor's inverse root, within 2^-14, so that the unit that takes roots and divides,
// the slowest here, has two things to do instead of three. w is the rounded root of s, r and q are
// what their squares leave: q exactly, r within 1.3 u^2 of b, where b is 2^-96 or more. With v = r
// / s, root(b) = s + v/2 and root(root(b)) = w + (q + v/2) / (2 w) up to terms of u^2, so b^(3/4) =
// s w + w (q/2 + 3/4 v). What that leaves out is below 7.6 u^2 of the power. The inverse of s is
// the inverse root, corrected once, so v, at most 2.2 u s, costs 3.5 u^2, and r 1 u^2; the
// roundings of the three sums, of at most 2.7 u, 3.7 u and 3.7 u, cost 10.1 u^2. Together 23 u^2;
// the margin is 64 u^2 = 2^-42.
struct Bounds {
  V::Reg low, high;
};
ETALON_INLINE Bounds by_f32_roots(V::Reg b) {
  constexpr float kMargin = 0x1p-42F;
  const V::Reg inverse = _mm512_rsqrt14_ps(b);
  const V::Reg near = V::mul(b, inverse);
  const V::Reg s = V::fma(_mm512_fnmadd_ps(near, near, b), V::mul(inverse, V::set1(0.5F)), near);
  const V::Reg w = _mm512_sqrt_ps(s);
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

// The outputs of m by f64 roots, and by the definition where these leave a power open; returns how
// many it computed.
[[gnu::noinline]] std::int64_t settle(const LrnCall& c, const float* base, const float* x, float* y,
                                      V::Mask m) {
  alignas(64) float low[V::lanes], high[V::lanes];
  for (int half = 0; half < V::lanes; half += V::lanes / 2)
    by_f64_roots(base + half, low + half, high + half);
  std::int64_t computed = 0;
  for (int lane = 0; lane < V::lanes; ++lane)
    if ((V::to_bits(m) >> lane & 1U) != 0 && !(base[lane] > 0 && low[lane] == high[lane])) {
      low[lane] = c.power(base[lane]);
      ++computed;
    }
  V::store(y, V::canonical(V::div(V::load(x, m), V::load(low))), m);
  return computed;
}

// count outputs at y of the elements at x; the bases are aligned, and whole vectors.
std::int64_t outputs(const LrnCall& c, const float* bases, const float* x, float* y,
                     std::int64_t count) {
  std::int64_t computed = 0;
  for (std::int64_t i = 0; i < count; i += V::lanes) {
    const V::Mask m = V::first(static_cast<int>(count - i < V::lanes ? count - i : V::lanes));
    const V::Reg base = V::load(bases + i);
    const Bounds power = by_f32_roots(base);
    const V::Mask exact = _mm512_cmp_ps_mask(base, V::set1(0x1p-96F), _CMP_GE_OQ);
    const V::Mask decided = _mm512_mask_cmp_ps_mask(exact, power.low, power.high, _CMP_EQ_OQ);
    // Where a power is decided neither base nor x is NaN, so the quotient is canonical.
    const V::Reg quotient = V::div(V::load(x + i, m), power.low);
    if ((V::to_bits(m) & ~V::to_bits(decided)) == 0) [[likely]]
      V::store(y + i, quotient, m);
    else
      computed += settle(c, bases + i, x + i, y + i, m);
  }
  return computed;
}

}  // namespace

// Two loops: in one, the chains of a vector, from its sum through roots to a quotient, are longer
// than what the processor looks ahead.
std::int64_t lrn(const LrnCall& c) {
  constexpr std::int64_t kBlock = 256;
  alignas(64) float bases[kLrnChannels * kBlock];
  const bool together = c.channels == kLrnChannels && c.last - c.first == 4;
  std::int64_t computed = 0;
  for (std::int64_t first = 0; first < c.n; first += kBlock) {
    const std::int64_t count = c.n - first < kBlock ? c.n - first : kBlock;
    std::int64_t i = 0;
    if (together)
      for (; i + V::lanes <= count; i += V::lanes) bases_at(c, c.x + first + i, bases + i, kBlock);
    for (; i < count; i += V::lanes) {
      const V::Mask m = V::first(static_cast<int>(count - i < V::lanes ? count - i : V::lanes));
      for (std::int64_t k = 0; k < c.channels; ++k)
        V::store(bases + k * kBlock + i, base_at(c, c.x + k * c.step + first + i, m));
    }
    for (std::int64_t k = 0; k < c.channels; ++k)
      computed +=
          outputs(c, bases + k * kBlock, c.x + k * c.step + first, c.y + k * c.step + first, count);
  }
  return computed;
}

}  // namespace etalon::avx512
