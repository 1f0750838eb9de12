// exact_lanes.h over a vector type V of f64, an ExactF64 (../gemm/exact_vector_avx512.h) that adds
// div and sqrt; included only by the files of one instruction set each.
#pragma once

#include <cstdint>

#include "kernels/gemm/exact_decide_inl.h"
#include "kernels/normalization/exact_lanes.h"

namespace etalon::simd {

template <class V, bool kMeanVaries, bool kAffineVaries>
void exact_affine_loop(const ExactAffine& c, std::uint64_t* undecided) {
  using Reg = typename V::Reg;
  const Reg outer = V::set1(c.outer), relative = V::set1(c.relative), spread = V::set1(c.spread);
  Reg mean = V::set1(*c.mean), factor = V::mul(V::set1(*c.factor), outer), bias = V::set1(*c.bias);
  for (std::int64_t i = 0; i < c.n; i += V::lanes) {
    const int n = c.n - i < V::lanes ? static_cast<int>(c.n - i) : V::lanes;
    const auto m = V::first(n);
    if constexpr (kMeanVaries) mean = V::load(c.mean + i, m);
    if constexpr (kAffineVaries) {
      factor = V::mul(V::load(c.factor + i, m), outer);
      bias = V::load(c.bias + i, m);
    }
    const Reg d = V::sub(n == V::lanes ? V::widen(c.x + i) : V::widen(c.x + i, m), mean);
    const Reg e = V::mul(V::abs(factor), V::fma(relative, V::abs(d), spread));
    decide<V>(V::fma(d, factor, bias), e, c.y, i, n, undecided);
  }
}

template <class V>
void exact_affine(const ExactAffine& c, std::uint64_t* undecided) {
  if (c.mean_varies)
    exact_affine_loop<V, true, true>(c, undecided);
  else if (c.affine_varies)
    exact_affine_loop<V, false, true>(c, undecided);
  else
    exact_affine_loop<V, false, false>(c, undecided);
}

template <class V, LrnPower kPower>
void exact_lrn_loop(const ExactLrn& c, std::uint64_t* undecided) {
  using Reg = typename V::Reg;
  const Reg factor = V::set1(c.factor), bias = V::set1(c.bias), relative = V::set1(c.relative);
  for (std::int64_t i = 0; i < c.n; i += V::lanes) {
    const int n = c.n - i < V::lanes ? static_cast<int>(c.n - i) : V::lanes;
    const auto m = V::first(n);
    Reg s = V::zero(), x = V::zero();
    for (std::int64_t d = c.first; d <= c.last; ++d) {
      const float* from = c.x + d * c.step + i;
      const Reg v = n == V::lanes ? V::widen(from) : V::widen(from, m);
      if (d == 0) x = v;
      s = V::fma(v, v, s);
    }
    Reg divisor = V::fma(factor, s, bias);
    if constexpr (kPower != LrnPower::one) {
      const Reg root = V::sqrt(divisor);
      divisor = kPower == LrnPower::half ? root : V::mul(root, V::sqrt(root));
    }
    const Reg t = V::div(x, divisor);
    decide<V>(t, V::mul(relative, V::abs(t)), c.y, i, n, undecided);
  }
}

template <class V>
void exact_lrn(const ExactLrn& c, std::uint64_t* undecided) {
  switch (c.power) {
    case LrnPower::one:
      return exact_lrn_loop<V, LrnPower::one>(c, undecided);
    case LrnPower::half:
      return exact_lrn_loop<V, LrnPower::half>(c, undecided);
    case LrnPower::three_quarters:
      return exact_lrn_loop<V, LrnPower::three_quarters>(c, undecided);
  }
}

template <class V>
ExactNormLanes make_exact_norm_lanes() {
  return {.affine = exact_affine<V>, .lrn = exact_lrn<V>};
}

}  // namespace etalon::simd
