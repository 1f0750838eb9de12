// softmax and log_softmax of short f32 rows, as many at a time as a vector has lanes.
//
// The rows are turned, so that a lane is a row: the largest element, the sum and the quotient of
// all rows are then operations on vectors, element after element, and what a call for each row
// costs is paid once. Same bits: a lane does what the definition does to its row, in the contract's
// order; terms are not negative and start at +0, so that lanes of the contract without a term add
// nothing.
#pragma once

#include <cstdint>

#include "kernels/activation/lanes.h"

namespace etalon {

// Longest row that is short: four squares of AVX2, two of AVX-512.
inline constexpr std::int64_t kNarrow = 32;

struct NarrowCall {
  const float* x = nullptr;
  float* y = nullptr;  // may be x
  int rows = 0;        // 1 to NarrowSoftmax::rows
  int n = 0;           // 1 to kNarrow
  bool log = false;
  std::int64_t lanes = 0;  // of order=lanes:N; 0 is seq
  LaneKernel functions = nullptr;
  LaneFallback exp, logarithm;
};

struct NarrowSoftmax {
  int rows;
  // False, and nothing done, if a row's largest element is infinite or NaN.
  bool (*run)(const NarrowCall& call);
};

extern const NarrowSoftmax narrow_softmax_avx2, narrow_softmax_avx512;

}  // namespace etalon
