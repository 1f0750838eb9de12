// passes.h over vector types of kernels/simd, F32 and F64, that have, beside, load_index,
// load_mask, is_tap and gather(base, index, mask); included only by the files of one instruction
// set.
#pragma once

#include <type_traits>

#include "kernels/gemm/exact_decide_inl.h"
#include "kernels/resize/passes.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
void resize_along(const ResizeTaps<typename V::Scalar>& t, const float* from,
                  typename V::Scalar* to, bool ends) {
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

template <class V, class From>
void resize_across(const ResizeTaps<typename V::Scalar>& t, std::int64_t o, const From* from,
                   std::int64_t stride, std::int64_t n, typename V::Scalar* to, bool ends) {
  int taps = 0;
  while (taps < t.most && t.index[taps * t.out + o] >= 0) ++taps;
  const bool copies = t.copies[o] != 0;
  const auto row = [&](int k)
                       ETALON_INLINE_LAMBDA { return from + t.index[k * t.out + o] * stride; };
  const auto on = [&](std::int64_t i, typename V::Mask m, auto masked) ETALON_INLINE_LAMBDA {
    const auto load = [&](const From* p) ETALON_INLINE_LAMBDA {
      if constexpr (std::is_same_v<From, typename V::Scalar>) {
        if constexpr (masked)
          return V::load(p, m);
        else
          return V::load(p);
      } else {
        if constexpr (masked)
          return V::widen(p, m);
        else
          return V::widen(p);
      }
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

template <class V>
void resize_decide(const double* sums, std::int64_t n, double error, float* y,
                   std::uint64_t* undecided) {
  const typename V::Reg e = V::set1(error);
  for (std::int64_t i = 0; i < n; i += V::lanes) {
    const int lanes = n - i < V::lanes ? static_cast<int>(n - i) : V::lanes;
    const typename V::Reg t = V::load(sums + i, V::first(lanes));
    if (error == 0)
      decide_exact<V>(t, y, i, lanes, undecided);
    else
      decide<V>(t, e, y, i, lanes, undecided);
  }
}

template <class F32, class F64>
constexpr ResizePasses make_resize_passes(ResizeRange (*range)(const float*, std::int64_t)) {
  return {.f32 = {resize_along<F32>, resize_across<F32, float>},
          .widening = {resize_along<F64>, resize_across<F64, float>},
          .f64 = {nullptr, resize_across<F64, double>},
          .range = range,
          .decide = resize_decide<F64>};
}

}  // namespace etalon::simd
