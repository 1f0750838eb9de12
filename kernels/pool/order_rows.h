// Average and Lp pools, with windows and global, in every order of a contract (../gemm/order.h).
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

template <Isa isa>
KernelRow average_pool_order_row(std::string_view name);
template <Isa isa>
KernelRow global_average_pool_order_row(std::string_view name);
template <Isa isa>
KernelRow lp_pool_order_row(std::string_view name);
template <Isa isa>
KernelRow global_lp_pool_order_row(std::string_view name);

}  // namespace etalon
