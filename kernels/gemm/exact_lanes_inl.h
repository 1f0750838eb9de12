// kernels/gemm/exact_lanes.h over a vector type V of f64; included only by the files of one
// instruction set each. V adds to kernels/simd: abs, narrow (to f32), same (lanes of two narrowed
// vectors that are equal in bits and no NaN) and store_narrow.
#pragma once

#include <cstdint>

#include "kernels/gemm/exact_lanes.h"

namespace etalon::simd {

template <class V>
void exact_norms(const double* strip, std::int64_t k, double* to) {
  typename V::Reg sum = V::zero();
  for (std::int64_t i = 0; i < k; ++i) {
    const typename V::Reg x = V::load(strip + i * V::lanes);
    sum = V::fma(x, x, sum);
  }
  V::store(to, sum);
  for (int lane = 0; lane < V::lanes; ++lane) to[lane] = __builtin_sqrt(to[lane]);
}

template <class V>
std::uint32_t exact_round(const double* s, int count, const ExactRow& row, float* y) {
  // The same terms as exact_decide (exact.h), in the same units.
  const typename V::Reg scale = V::set1(row.scale), bound = V::set1(row.bound),
                        slack = V::set1(row.slack), addition = V::set1(0x1p-51);
  std::uint32_t undecided = 0;
  for (int first = 0; first < count; first += V::lanes) {
    typename V::Reg t = V::mul(scale, V::load(s + first));
    typename V::Reg e = V::fma(slack, V::abs(t), V::mul(bound, V::load(row.norms + first)));
    if (row.added != nullptr) t = V::add(t, V::load(row.added + first));
    e = V::fma(addition, V::abs(t), e);
    const std::uint32_t decided = V::same(V::narrow(V::sub(t, e)), V::narrow(V::add(t, e)));
    const int n = count - first < V::lanes ? count - first : V::lanes;
    const std::uint32_t lanes = (1U << n) - 1;
    undecided |= (~decided & lanes) << first;
    V::store_narrow(y + first, V::narrow(t), n);
  }
  return undecided;
}

template <class V>
ExactLanes make_exact_lanes() {
  return {.norms = exact_norms<V>, .round = exact_round<V>};
}

}  // namespace etalon::simd
