// The rows of row_norm.h.
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> row_norm_f32_rows();

}  // namespace etalon
