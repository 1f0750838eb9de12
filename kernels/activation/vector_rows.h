// The vector rows of the activations; see lanes.h for what they compute and why the bits agree.
#pragma once

#include <vector>

#include "engine/backend/kernel.h"

namespace etalon {

// Two rows an op and instruction set: tanh.f32.avx512, and tanh.half.avx512 for f16 and bf16.
const std::vector<KernelRow>& activation_vector_rows();

}  // namespace etalon
