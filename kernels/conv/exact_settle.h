// What a first pass of an exact convolution left undecided, settled one by one
// (kernels/gemm/exact_settle.h), all channels of a pixel in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/conv/exact_task.h"

namespace etalon {

// Writes the outputs it decides; keeps the others in `left`.
void settle_conv(Isa isa, const ExactConv& conv, std::vector<std::int64_t>& left);

}  // namespace etalon
