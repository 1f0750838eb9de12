#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// arg_max and arg_min of f32 by vectors (arg_lanes.h).
std::span<const KernelRow> arg_rows();

}  // namespace etalon
