// Norms under every contract, by panels of rows (../gemm/order_panel.h); batch norm and LRN by runs
// of outputs.
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> normalization_order_rows();

}  // namespace etalon
