// The vector rows of the activations; see lanes.h for what they compute and why the bits agree.
#pragma once

#include <vector>

#include "engine/backend/kernel.h"

namespace etalon {

// One row an op and instruction set: tanh.f32.avx512, gelu.f32.avx2, ...
const std::vector<KernelRow>& activation_vector_rows();

}  // namespace etalon
