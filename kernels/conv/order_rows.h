// conv in every order and walk of a contract, on the tiles of one instruction set
// (../gemm/order.h).
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

template <Isa isa>
KernelRow conv_order_row(std::string_view name);

// One channel a group, read and written where they lie (../gemm/order_windows.h).
template <Isa isa>
KernelRow conv_channels_last_order_row(std::string_view name);

// What conv_order_row computes, with another program over the same terms than the contract's order
// has, and what it prepares.
template <Isa isa>
void run_conv_order(const KernelCall& call, const OrderProgram& program);
template <Isa isa>
Prepared prepare_conv_order(const Problem& problem, int threads);

}  // namespace etalon
