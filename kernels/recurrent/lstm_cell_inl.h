// The cell's step of lstm.h over a vector type V; included only by the files of one instruction
// set.
#pragma once

#include <cstdint>

#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n) {
  std::int64_t j = 0;
  for (; j + V::lanes <= n; j += V::lanes)
    V::store(c + j, V::canonical(V::fma(V::load(f + j), V::load(c + j),
                                        V::mul(V::load(i + j), V::load(u + j)))));
  if (j == n) return;
  const typename V::Mask rest = V::first(static_cast<int>(n - j));
  V::store(c + j,
           V::canonical(V::fma(V::load(f + j, rest), V::load(c + j, rest),
                               V::mul(V::load(i + j, rest), V::load(u + j, rest)))),
           rest);
}

}  // namespace etalon::simd
