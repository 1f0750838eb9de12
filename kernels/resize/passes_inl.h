// passes.h over a vector type V of kernels/simd that has, beside, gather(base, index, mask) and
// Index, a vector of 32-bit integers; included only by the files of one instruction set.
#pragma once

#include <type_traits>

#include "kernels/resize/passes.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
void resize_along(const ResizeTaps& t, const float* from, float* to, bool ends) {
  using Mask = typename V::Mask;
  for (std::int64_t o = 0; o < t.out; o += V::lanes) {
    const Mask there = V::first(t.out - o < V::lanes ? static_cast<int>(t.out - o) : V::lanes);
    typename V::Reg sum = V::zero();
    for (int k = 0; k < t.most; ++k) {
      const std::int64_t at = k * t.out + o;
      const auto index = V::load_index(t.index + at, there);
      const Mask taken = V::is_tap(index, there);
      const typename V::Reg x = V::gather(from, index, taken);
      const typename V::Reg added = V::fma(taken, V::load(t.weight + at, there), x, sum);
      sum = k == 0 ? V::select(V::load_mask(t.copies + o, there), x, added) : added;
    }
    V::store(to + o, ends ? V::canonical(sum) : sum, there);
  }
}

template <class V>
void resize_across(const ResizeTaps& t, std::int64_t o, const float* from, std::int64_t n,
                   float* to, bool ends) {
  int taps = 0;
  while (taps < t.most && t.index[taps * t.out + o] >= 0) ++taps;
  const bool copies = t.copies[o] != 0;
  const auto row = [&](int k) ETALON_INLINE_LAMBDA { return from + t.index[k * t.out + o] * n; };
  const auto on = [&](std::int64_t i, typename V::Mask m, auto masked) ETALON_INLINE_LAMBDA {
    const auto load = [&](const float* p) ETALON_INLINE_LAMBDA {
      if constexpr (masked)
        return V::load(p, m);
      else
        return V::load(p);
    };
    typename V::Reg sum = V::zero();
    if (copies)
      sum = load(row(0) + i);
    else
      for (int k = 0; k < taps; ++k)
        sum = V::fma(V::set1(t.weight[k * t.out + o]), load(row(k) + i), sum);
    if (ends) sum = V::canonical(sum);
    if constexpr (masked)
      V::store(to + i, sum, m);
    else
      V::store(to + i, sum);
  };
  std::int64_t i = 0;
  for (; i + V::lanes <= n; i += V::lanes) on(i, V::first(0), std::false_type{});
  if (i < n) on(i, V::first(static_cast<int>(n - i)), std::true_type{});
}

}  // namespace etalon::simd
