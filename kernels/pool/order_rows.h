// avg_pool and global_avg_pool in every order of a contract (../gemm/order.h).
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

template <Isa isa>
KernelRow average_pool_order_row(std::string_view name);
template <Isa isa>
KernelRow global_average_pool_order_row(std::string_view name);

}  // namespace etalon
