// Reductions that are sums, in every order of a contract (../gemm/order_reduce.h).
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> reduce_order_rows();

}  // namespace etalon
