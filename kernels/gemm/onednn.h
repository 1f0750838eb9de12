#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// Vendor rows of gemm and matmul; compiled where oneDNN was found.
std::span<const KernelRow> onednn_gemm_rows();
std::span<const KernelRow> onednn_matmul_rows();

}  // namespace etalon
