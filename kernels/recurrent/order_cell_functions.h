// Activations of cells over arrays of values of a contract's accumulator: the real value of each,
// rounded once to `acc` and flushed as the contract says, the bits of ContractSteps::function
// (definition.h). A clip may hold an argument at a number that acc does not have.
#pragma once

#include "engine/core/cpu.h"
#include "engine/numerics/contract.h"
#include "engine/ops/recurrent.h"
#include "kernels/gemm/order_chain.h"

namespace etalon {

template <class T>
void call_cell_function(const Contract& c, Isa isa, const OrderTiles<T>& tiles,
                        const CellActivation& f, T* values, std::int64_t count);

}  // namespace etalon
