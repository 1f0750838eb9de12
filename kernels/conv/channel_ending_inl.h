// The steps of ChannelEnding on a vector of type V; included only by the files of one instruction
// set.
#pragma once

#include "kernels/conv/depthwise.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// A sum, its bias and what follows them.
template <class V>
ETALON_INLINE typename V::Reg end_channel(typename V::Reg sum, const float* bias,
                                          const ChannelEnding* ending) {
  if (bias != nullptr) sum = V::add(sum, V::set1(*bias));
  if (ending == nullptr) return V::canonical(sum);
  if (ending->affine) {
    const typename V::Reg centered = V::sub(sum, V::set1(ending->mean));
    const typename V::Reg factor = V::set1(ending->factor), add = V::set1(ending->bias);
    sum = ending->fused ? V::fma(centered, factor, add) : V::add(V::mul(centered, factor), add);
  }
  return ending->relu ? V::relu(sum) : V::canonical(sum);
}

}  // namespace etalon::simd
