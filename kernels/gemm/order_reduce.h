// Plain sums in every order of a contract: order.h's programs over terms that are runs of outputs
// in memory. Lanes are outputs.
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

// The sums of (1 << height) * width neighbouring outputs, output i's term k from[terms[k] + i],
// into stack[0..]; stack holds program.depth tiles of kOrderRows * width.
template <class T>
void sum_order(const OrderTiles<T>& tiles, const OrderProgram& program, OrderTerm term,
               const float* from, const std::int64_t* terms, int height, T* stack);

struct OrderReduction {
  std::int64_t outputs = 0, k = 0;
  // Term k of output i is element first(i) + term(k) of input 0.
  FunctionRef<std::int64_t(std::int64_t)> first, term;
  // Outputs j run .. j run + run - 1 are neighbours there, terms likewise.
  std::int64_t run = 1, term_run = 1;
  OrderTerm of = OrderTerm::value;
  // What becomes of a sum, in the contract's arithmetic: divided by this unless it is negative, its
  // root taken, its logarithm.
  double divisor = -1;
  bool root = false, logarithm = false;
};

Refusal refuse_order_reduction(const Contract& contract, std::int64_t k);
void run_order_reduction(const KernelCall& call, Isa isa, const OrderReduction& r);

}  // namespace etalon
