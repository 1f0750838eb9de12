// Plain sums in every order of a contract: order.h's programs over terms that are runs of outputs
// in memory. Lanes are outputs.
#pragma once

#include <span>

#include "kernels/gemm/order.h"

namespace etalon {

// Output i's term k is of from[terms[k] + i] and, of products, weights[at[k] + i]; of results
// weights[at[k] + i] alone.
template <class T>
struct OrderRuns {
  OrderTerm of = OrderTerm::value;
  const float* from = nullptr;  // values that settle() leaves as they are
  const std::int64_t* terms = nullptr;
  const T* weights = nullptr;
  const std::int64_t* at = nullptr;
};
// The sums of (1 << height) * width neighbouring outputs, into stack[0..]; stack holds
// program.depth tiles of kOrderRows * width.
template <class T>
void sum_order(const OrderTiles<T>& tiles, const OrderProgram& program, const OrderRuns<T>& runs,
               int height, T* stack);

// The sum of n terms that lie side by side, of values or of their squares. They are read up to a
// vector past the last; at[k] is k; stack as for sum_order.
template <class T>
T sum_order_line(const OrderTiles<T>& tiles, const OrderProgram& program, OrderTerm term,
                 const T* terms, const std::int64_t* at, T* stack) {
  sum_order<T>(tiles, program, {.of = term, .weights = terms, .at = at}, 0, stack);
  return stack[0];
}
// So few sums that each is a line: a chain of one takes as long as one of a panel's lanes.
inline constexpr std::int64_t kFewOrderRows = 2;

// The order of sums of n terms, compiled beforehand: that takes as much time as one sum.
Prepared prepare_order(const Contract& contract, std::int64_t n);
// What prepare_order gave, or where it did not, `own`, compiled now.
const OrderProgram& prepared_order(const KernelCall& call, std::int64_t n, OrderProgram& own);

// Values of x as settle() leaves them, where that does anything.
template <class T>
void settle_order(const OrderTiles<T>& tiles, float* x, std::int64_t n);

// Rows of a tensor: term k of row r is element first(r) + terms[k]. Rows j run .. j run + run - 1
// are neighbours there, terms likewise.
struct OrderPlaces {
  std::int64_t rows = 0;
  FunctionRef<std::int64_t(std::int64_t)> first;
  std::span<const std::int64_t> terms;
  std::int64_t run = 1, term_run = 1;
};
// to[k * panel + lane]: rows [first, first + panel), those past the last like the last, or +0.
inline constexpr std::int64_t kMostOrderPanel = std::int64_t{kOrderRows} * 64;
template <class T>
void pack_order_terms(const OrderTiles<T>& tiles, const float* x, const OrderPlaces& places,
                      std::int64_t first, std::int64_t panel, float* to);
// Of panels (width << height) wide: what of k terms the second cache holds, no more than the rows.
int order_panel_height(int width, std::int64_t k, std::int64_t rows);

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
