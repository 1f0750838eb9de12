// gemm and matmul in every order of a contract, on the tiles of one instruction set (order.h).
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

template <Isa isa>
KernelRow gemm_order_row(std::string_view name);
template <Isa isa>
KernelRow matmul_order_row(std::string_view name);

}  // namespace etalon
