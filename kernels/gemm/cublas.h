#pragma once

#include <span>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// cuBLAS's own products: f32 as it comes and pedantic, TF32, and f32 emulated by nine products of
// bf16. Vendor rows: bits reported, never promised.
// Seen on hardware: never.
std::span<const DeviceRow> cublas_device_rows();

// What is no product of two f32 matrices; cuBLASLt's rows take no more either.
Refusal refuse_unless_two_matrices(const Problem& problem);

}  // namespace etalon::cuda
