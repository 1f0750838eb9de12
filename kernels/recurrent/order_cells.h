// Cells under every contract, with every attribute.
//
// All rows of a thread's part of the batch go through a step together: their gates' sums are
// products with the weights in the contract's order (../gemm/order.h; lanes are units), the rest is
// operations on [row][unit], each rounded as the definition rounds it, activations by
// order_cell_functions.h.
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> cell_order_rows();

}  // namespace etalon
