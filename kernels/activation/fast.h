#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// relu on f32 where f32 is stored as it is: one comparison.
std::span<const KernelRow> relu_f32_rows();
// abs, neg, sign, floor, ceil, round, thresholded_relu, shrink, softshrink; relu of f16 and bf16.
std::span<const KernelRow> plain_activation_rows();
std::span<const KernelRow> prelu_rows();

}  // namespace etalon
