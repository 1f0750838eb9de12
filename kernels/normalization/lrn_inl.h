// lrn.h over a vector type V that has, beside those of kernels/simd, Half (f64 roots of half a
// vector) and what its roots begin with; included only by the files of one instruction set.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/normalization/lrn.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// The base of the outputs at x, those of m where not all: their sum, scaled, and the bias.
template <class V, bool whole>
ETALON_INLINE typename V::Reg base_at(const LrnCall& c, const float* x, typename V::Mask m) {
  typename V::Reg sum = V::zero();
  for (std::int64_t d = c.first; d <= c.last; ++d) {
    const typename V::Reg v = whole ? V::load(x + d * c.step) : V::load(x + d * c.step, m);
    sum = V::fma(v, v, sum);
  }
  return V::fma(V::set1(c.factor), sum, V::set1(c.bias));
}

// The bases of kLrnChannels channels, `apart` from each other, whose windows are five wide: eight
// loads for twenty terms.
template <class V>
ETALON_INLINE void bases_at(const LrnCall& c, const float* x, float* bases, std::int64_t apart) {
  constexpr int kChannels = kLrnChannels, kWindow = 5;
  typename V::Reg v[kChannels + kWindow - 1];
  unroll<kChannels + kWindow - 1>(
      [&](auto d) ETALON_INLINE_LAMBDA { v[d] = V::load(x + (c.first + d) * c.step); });
  unroll<kChannels>([&](auto k) ETALON_INLINE_LAMBDA {
    typename V::Reg sum = V::zero();
    unroll<kWindow>([&](auto d) ETALON_INLINE_LAMBDA { sum = V::fma(v[k + d], v[k + d], sum); });
    V::store(bases + k * apart, V::fma(V::set1(c.factor), sum, V::set1(c.bias)));
  });
}

// Both ends of an interval around b^(3/4), rounded to f32; NaN for what is below 0 or not finite.
//
// Let u = 2^-24. V::roots gives s, the root of b within 0.5 of its last place and 0.1 u, and an
// inverse of it that is within 2^-11.4. w is the rounded root of s, r and q are what their squares
// leave: q exactly, r within 1.3 u^2 of b, where b is 2^-96 or more. With v = r / s, root(b) = s +
// v/2 and root(root(b)) = w + (q + v/2) / (2 w) up to terms of u^2, so b^(3/4) = s w + w (q/2 + 3/4
// v). What that leaves out is below 7.6 u^2 of the power. The inverse, corrected once, is within
// 2^-22.8 = 2.3 u, and with the two roundings of it v, at most 2.2 u s, costs 3/4 * 2.2 * 4.3 u^2 =
// 7.1 u^2; r costs 1 u^2; the roundings of the three sums, of at most 2.7 u, 3.7 u and 3.7 u, cost
// 10.1 u^2. Together 26 u^2; the margin is 64 u^2 = 2^-42.
template <class V>
struct Bounds {
  typename V::Reg low, high;
};
template <class V>
ETALON_INLINE Bounds<V> by_f32_roots(typename V::Reg b) {
  using Reg = typename V::Reg;
  constexpr float kMargin = 0x1p-42F;
  Reg s, inverse;
  V::roots(b, s, inverse);
  const Reg w = V::sqrt(s);
  const Reg about = V::mul(V::fnma(s, s, b), inverse);
  const Reg v = V::fma(about, V::fnma(s, inverse, V::set1(1)), about);
  const Reg q = V::fnma(w, w, s);
  const Reg p = V::mul(s, w);
  const Reg rest = V::fma(w, V::fma(v, V::set1(0.75F), V::mul(q, V::set1(0.5F))), V::fms(s, w, p));
  return {V::add(p, V::fma(p, V::set1(-kMargin), rest)),
          V::add(p, V::fma(p, V::set1(kMargin), rest))};
}

// `lanes` outputs by f64 roots, and by the definition where these leave a power open; returns how
// many it computed.
template <class V>
[[gnu::noinline]] std::int64_t settle(const LrnCall& c, const float* base, const float* x, float* y,
                                      int lanes) {
  alignas(64) float low[V::lanes], high[V::lanes];
  for (int half = 0; half < V::lanes; half += V::lanes / 2)
    V::by_f64_roots(base + half, low + half, high + half);
  std::int64_t computed = 0;
  for (int lane = 0; lane < lanes; ++lane)
    if (!(base[lane] > 0 && low[lane] == high[lane])) {
      low[lane] = c.power(base[lane]);
      ++computed;
    }
  const typename V::Mask m = V::first(lanes);
  V::store(y, V::canonical(V::div(V::load(x, m), V::load(low))), m);
  return computed;
}

// count outputs at y of the elements at x; the bases are aligned, and whole vectors.
template <class V>
std::int64_t outputs(const LrnCall& c, const float* bases, const float* x, float* y,
                     std::int64_t count) {
  using Reg = typename V::Reg;
  std::int64_t computed = 0;
  const auto vector = [&](std::int64_t i, auto whole) ETALON_INLINE_LAMBDA {
    const int lanes = whole ? V::lanes : static_cast<int>(count - i);
    const typename V::Mask m = V::first(lanes);
    __builtin_prefetch(x + i + c.next_x);
    __builtin_prefetch(y + i + c.next_y, 1);
    const Reg base = V::load(bases + i);
    const Bounds<V> power = by_f32_roots<V>(base);
    const std::uint32_t decided =
        V::to_bits(V::equal(power.low, power.high)) & V::to_bits(V::at_least(base, 0x1p-96F));
    // Where a power is decided neither base nor x is NaN, so the quotient is canonical.
    const Reg quotient = V::div(whole ? V::load(x + i) : V::load(x + i, m), power.low);
    if ((V::to_bits(m) & ~decided) != 0) [[unlikely]]
      computed += settle<V>(c, bases + i, x + i, y + i, lanes);
    else if constexpr (whole)
      V::store(y + i, quotient);
    else
      V::store(y + i, quotient, m);
  };
  std::int64_t i = 0;
  for (; i + V::lanes <= count; i += V::lanes) vector(i, std::true_type{});
  if (i < count) vector(i, std::false_type{});
  return computed;
}

// Two loops: in one, the chains of a vector, from its sum through roots to a quotient, are longer
// than what the processor looks ahead.
template <class V>
std::int64_t lrn_of(const LrnCall& c) {
  constexpr std::int64_t kApart = kLrnPixels;
  alignas(64) float bases[kLrnChannels * kApart];
  const bool together = c.channels == kLrnChannels && c.last - c.first == 4;
  const auto bases_of = [&](std::int64_t at, auto whole) ETALON_INLINE_LAMBDA {
    const typename V::Mask m = V::first(static_cast<int>(whole ? V::lanes : c.n - at));
    for (std::int64_t k = 0; k < c.channels; ++k)
      V::store(bases + k * kApart + at, base_at<V, whole>(c, c.x + k * c.step + at, m));
  };
  std::int64_t i = 0;
  for (; i + V::lanes <= c.n; i += V::lanes)
    together ? bases_at<V>(c, c.x + i, bases + i, kApart) : bases_of(i, std::true_type{});
  if (i < c.n) bases_of(i, std::false_type{});
  std::int64_t computed = 0;
  for (std::int64_t k = 0; k < c.channels; ++k)
    computed += outputs<V>(c, bases + k * kApart, c.x + k * c.step, c.y + k * c.step, c.n);
  return computed;
}

}  // namespace etalon::simd
