// layer_norm, rms_norm, instance_norm and group_norm, f32, order=seq and order=lanes:N, over
// contiguous rows.
//
// Same bits: sums and sums of squares are the chains of the contract (../reduce/row_steps.h); what
// follows is done to each element apart: (x - mean) / root, rounded twice, then one fma with scale
// and bias, or one product.
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> row_norm_f32_rows();

}  // namespace etalon
