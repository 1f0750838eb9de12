// softmax and log_softmax under every contract, by panels of rows (../gemm/order_panel.h).
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> softmax_order_rows();

}  // namespace etalon
