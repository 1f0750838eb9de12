// batch_norm on f32 where the contract's intermediates are f32 (seq, and any other order, since the
// formula has none; fma on or off): y = fma(round(x - mean), factor, bias), with factor =
// round(scale / round(sqrt(round(var + eps)))) computed once a channel.
// Same bits: each step is one IEEE operation of its own lane, in the definition's sequence; a NaN
// is made canonical when it is stored. Limit: memory; on pieces of a convolution's output
// (docs/adr/0006), the first cache.
#pragma once

#include <cstdint>

#include "engine/backend/kernel.h"

namespace etalon {

// n elements; mean, factor and bias hold one value for all of them, or, with varies, one each.
struct BatchNormCall {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t n = 0;
  const float* mean = nullptr;
  const float* factor = nullptr;
  const float* bias = nullptr;
  bool varies = false;
  bool fused = true;  // contract fma=on
};

namespace avx512 {
void batch_norm(const BatchNormCall& call);
}
namespace avx2 {
void batch_norm(const BatchNormCall& call);
}

template <Isa isa>
KernelRow batch_norm_f32_row(std::string_view name);

}  // namespace etalon
