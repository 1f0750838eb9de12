#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon::cuda {

// cuBLAS's own products: f32 units (pedantic) and TF32. Vendor rows: bits reported, never promised.
// Seen on hardware: never.
std::span<const KernelRow> cublas_rows();

}  // namespace etalon::cuda
