// A convolution under exact, on raw tensors.
#pragma once

#include "engine/ops/conv.h"
#include "kernels/gemm/exact.h"

namespace etalon {

struct ExactConv {
  const ConvGeometry& g;
  const float *x = nullptr, *w = nullptr, *bias = nullptr;
  float* y = nullptr;
  double* truth = nullptr;
  const ExactSteps& steps;
  int threads = 1;
};

}  // namespace etalon
