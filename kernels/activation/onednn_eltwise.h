#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// oneDNN's eltwise primitive for functions beyond those of onednn.h, f32. Nothing is promised about
// bits.
std::span<const KernelRow> onednn_eltwise_rows();

}  // namespace etalon
