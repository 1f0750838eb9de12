#pragma once

#include "engine/ops/conv.h"
#include "kernels/gemm/exact.h"

namespace etalon {

// The first pass of an exact convolution in digits (kernels/gemm/digit_tile.h).
struct ConvDigits {
  // w with k walking (tap, channel), group by group, each in strips of 16 channels.
  std::vector<DigitOperand> groups;
  bool finite = true;  // whether all of w is; if not there is no such pass
};
void pack_conv_digits(const DigitSet& set, const ConvGeometry& g, const float* w, int threads,
                      ConvDigits& to);

// Why a convolution has no such pass.
Refusal refuse_conv_digits(const ConvGeometry& g);

struct ConvDigitsTask {
  const float* x = nullptr;
  const ConvDigits* w = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
  double* truth = nullptr;
  ExactSteps steps;
};
// Appends the undecided outputs. False, with y untouched or not, where x holds NaN or infinity.
bool conv_digits(const DigitSet& set, const ExactLanes& lanes, const ConvGeometry& g,
                 const ConvDigitsTask& task, int threads, std::vector<std::int64_t>& undecided);

}  // namespace etalon
