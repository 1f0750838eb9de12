// Plain sums in every order of a contract: a sum of products with 1 (fma(1, x, s) and s + 1 * x are
// s + x, rounded once), on the tiles of order.h. Lanes are outputs.
#pragma once

#include "kernels/gemm/order.h"

namespace etalon {

struct OrderReduction {
  std::int64_t outputs = 0, k = 0;
  // Term k of output i is element first(i) + term(k) of input 0.
  FunctionRef<std::int64_t(std::int64_t)> first, term;
  bool absolute = false;  // of |x|
  double divisor = -1;    // sums are divided by it, in the contract's arithmetic; negative: not
};

Refusal refuse_order_reduction(const Contract& contract, std::int64_t k);
void run_order_reduction(const KernelCall& call, Isa isa, const OrderReduction& r);

}  // namespace etalon
