// layer_norm and rms_norm, f32, order=seq and order=lanes:N, over contiguous rows.
//
// Same bits: sums and sums of squares are the chains of the contract (../reduce/f32_steps.h), of
// eight rows side by side under seq, of the lanes of one row under lanes; what follows is done to
// each element apart: (x - mean) / root, rounded twice, then one fma with scale and bias, or one
// product.
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

// y = d / root, then fma(y, scale, bias), y * scale, or as it is where both are nullptr; a bias
// without a scale is added to y * 1. NaN canonical. y may be d.
struct RowAffine {
  const float* d = nullptr;
  float root = 1;
  const float* scale = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  std::int64_t n = 0;
};

namespace avx512 {
void row_affine(const RowAffine& r);
}
namespace avx2 {
void row_affine(const RowAffine& r);
}

}  // namespace etalon
