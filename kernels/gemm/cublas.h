#pragma once

#include <span>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// cuBLAS's own products: f32 units (pedantic) and TF32. Vendor rows: bits reported, never promised.
// Seen on hardware: never.
std::span<const DeviceRow> cublas_device_rows();

}  // namespace etalon::cuda
