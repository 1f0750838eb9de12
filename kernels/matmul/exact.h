#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

// matmul on f32 under exact: gemm's first pass and test (kernels/gemm/exact.h) on each matrix of
// the batch.
template <Isa isa>
KernelRow matmul_exact_row(std::string_view name);

}  // namespace etalon
