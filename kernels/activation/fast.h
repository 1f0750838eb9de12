#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// relu on f32 where f32 is stored as it is: one comparison.
std::span<const KernelRow> relu_f32_rows();

}  // namespace etalon
