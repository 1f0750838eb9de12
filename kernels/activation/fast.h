#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

// relu on f32, contract seq: one comparison.
KernelRow relu_f32_row();

}  // namespace etalon
