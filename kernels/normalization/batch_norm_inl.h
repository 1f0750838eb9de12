// The loop of batch_norm.h over a vector type V; included only by the files of one instruction set.
#pragma once

#include <algorithm>

#include "kernels/normalization/batch_norm.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V, bool kVaries, bool kFused>
void batch_norm_loop(const BatchNormCall& c) {
  using Reg = typename V::Reg;
  Reg mean = V::set1(*c.mean), factor = V::set1(*c.factor), bias = V::set1(*c.bias);
  const auto step = [&](Reg x) ETALON_INLINE_LAMBDA {
    const Reg d = V::sub(x, mean);
    if constexpr (kFused)
      return V::canonical(V::fma(d, factor, bias));
    else
      return V::canonical(V::add(V::mul(d, factor), bias));
  };
  std::int64_t i = 0;
  for (; i + V::lanes <= c.n; i += V::lanes) {
    if constexpr (kVaries) {
      mean = V::load(c.mean + i);
      factor = V::load(c.factor + i);
      bias = V::load(c.bias + i);
    }
    V::store(c.y + i, step(V::load(c.x + i)));
  }
  if (i == c.n) return;
  const typename V::Mask rest = V::first(static_cast<int>(c.n - i));
  if constexpr (kVaries) {
    mean = V::load(c.mean + i, rest);
    factor = V::load(c.factor + i, rest);
    bias = V::load(c.bias + i, rest);
  }
  V::store(c.y + i, step(V::load(c.x + i, rest)), rest);
}

template <class V>
void batch_norm(const BatchNormCall& c) {
  if (c.n <= 0) return;
  if (c.varies)
    c.fused ? batch_norm_loop<V, true, true>(c) : batch_norm_loop<V, true, false>(c);
  else
    c.fused ? batch_norm_loop<V, false, true>(c) : batch_norm_loop<V, false, false>(c);
}

}  // namespace etalon::simd
