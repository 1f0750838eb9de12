// The first pass of an exact product in digits (digit_tile.h), in place of the one in f64.
#pragma once

#include "kernels/gemm/exact.h"

namespace etalon {

// Appends the outputs that are undecided.
void digits_pass(const DigitSet& set, const ExactLanes& lanes, const ExactTask& task,
                 const DigitOperand& b, int threads, std::vector<std::int64_t>& left);

}  // namespace etalon
