// row_norm.h's vectors; included only by the files of one instruction set each.
#pragma once

#include "kernels/normalization/row_norm.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

template <class V>
void row_affine(const RowAffine& r) {
  using Reg = typename V::Reg;
  const Reg root = V::set1(r.root);
  for (std::int64_t i = 0; i < r.n; i += V::lanes) {
    const typename V::Mask m = V::first(r.n - i < V::lanes ? static_cast<int>(r.n - i) : V::lanes);
    Reg y = V::div(V::load(r.d + i, m), root);
    if (r.bias != nullptr)
      y = V::fma(y, r.scale == nullptr ? V::set1(1.0F) : V::load(r.scale + i, m),
                 V::load(r.bias + i, m));
    else if (r.scale != nullptr)
      y = V::mul(y, V::load(r.scale + i, m));
    V::store(r.y + i, V::canonical(y), m);
  }
}

}  // namespace etalon::simd
