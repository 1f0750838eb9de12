// Losses of elements under every contract.
//
// Terms are operations on neighbouring elements, each rounded as the definition rounds it; their
// sum is the contract's order over one line of them (../gemm/order_reduce.h).
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> loss_order_rows();

}  // namespace etalon
