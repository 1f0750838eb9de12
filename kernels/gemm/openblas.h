#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> openblas_gemm_rows();

}  // namespace etalon
