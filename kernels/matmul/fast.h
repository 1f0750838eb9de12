#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

// matmul on f32, contract seq: gemm's kernel (kernels/gemm/fast.h) once a matrix of the batch.
template <Isa isa>
KernelRow matmul_f32_row(std::string_view name);

}  // namespace etalon
