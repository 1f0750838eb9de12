#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// resize by linear and cubic kernels under seq, on f32 (passes.h).
std::span<const KernelRow> resize_f32_rows();

}  // namespace etalon
