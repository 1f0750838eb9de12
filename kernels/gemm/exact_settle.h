// What a first pass left undecided, one output at a time: the sum in f64 with a bound of its own
// (ExactLanes::sum), which is closer than that of a pass by norms, and then in
// twice the precision of f64 with a measured bound (ExactLanes::dot); alpha and what is added are
// carried along as exact pairs, and both ends of the interval rounded. Sums that met no rounding at
// all (small integers, zeros) have a bound of zero and are decided even on midpoints. What stays
// open here (midpoints and near-midpoints below 2^-104 of the terms, NaN, infinities) is left to
// the definition.
#pragma once

#include "kernels/gemm/exact_lanes.h"

namespace etalon {

struct ExactOutput {
  const float* a = nullptr;  // both contiguous in k
  const float* b = nullptr;
  std::int64_t k = 0;
  double scale = 1;  // a number of f32
  double added = 0;  // the sum of what is added is exact in f64: beta * c, or a bias
  bool adds = false;
  const ExactCells* cells = nullptr;
};

// Whether y is now the correctly rounded value (and *truth, unless null, within 2^-10 ULP of the
// real one).
bool exact_settle(const ExactLanes& lanes, const ExactOutput& output, float& y, double* truth);

}  // namespace etalon
