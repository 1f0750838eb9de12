// Sums over sliding windows of single planes in every order of a contract: pools, and convolutions
// of one channel each.
//
// Lanes are planes. A few dozen are turned so that each point is a run of them; then a tap is a run
// at a constant distance from the output, whatever stride and dilation are. All lanes of an output
// have the same taps in the padding, which are no terms: each set of taps has a program of its own.
#pragma once

#include "engine/core/function_ref.h"
#include "engine/ops/window.h"
#include "kernels/gemm/order_reduce.h"

namespace etalon {

template <class T>
struct OrderWindows {
  const OrderTiles<T>& tiles;
  const OrderProgram& program;  // over all taps of a window, row-major
  const Window& window;
  std::int64_t planes = 0;  // of the output
  // Channels of an image that lies with its channels last, one plane each: then nothing is turned.
  std::int64_t channels_last = 0;
  // Of the input's planes, that of output plane i.
  FunctionRef<std::int64_t(std::int64_t)> plane;
  OrderTerm of = OrderTerm::value;
  // Of products: fills to[tap * lanes + lane] for planes [first, first + lanes).
  FunctionRef<void(std::int64_t first, std::int64_t lanes, T* to)> weights;
  // What becomes of the sums of one output, planes [first, first + lanes) of it; a multiple of
  // width.
  FunctionRef<void(std::int64_t first, std::int64_t output, std::int64_t lanes, T* sums)> finish;
};

Refusal refuse_order_windows(const Window& window);
template <class T>
void run_order_windows(const KernelCall& call, const OrderWindows<T>& task);

}  // namespace etalon
