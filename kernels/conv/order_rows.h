// conv in every order and walk of a contract, on the tiles of one instruction set
// (../gemm/order.h).
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

template <Isa isa>
KernelRow conv_order_row(std::string_view name);

}  // namespace etalon
