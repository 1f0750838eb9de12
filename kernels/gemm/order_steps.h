// The interpreter of order.h's programs, over whatever computes a chain.
#pragma once

#include "kernels/gemm/order.h"
#include "kernels/gemm/rounding_scope.h"

namespace etalon {

// How the processor rounds while a program runs, over products or other terms.
template <class T>
OrderMode order_mode(const OrderTiles<T>& tiles, const OrderProgram& program, bool products) {
  return products && program.chained ? tiles.chains : tiles.others;
}

// stack: tiles `size` apart, of which `used` elements hold outputs. chain(step, tile, join)
// computes a step's chain into the tile, or adds it to what is there, for the join that is given.
template <class T, class Chain>
void run_order_steps(const OrderTiles<T>& tiles, const OrderProgram& program, OrderMode mode,
                     std::int64_t used, T* stack, std::int64_t size, const Chain& chain) {
  using Kind = OrderStep::Kind;
  {
    const RoundingScope scope(mode);
    T* top = stack - size;
    const std::vector<OrderStep>& steps = program.steps;
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const OrderStep& s = steps[i];
      if (s.kind == Kind::join) {
        top -= size;
        tiles.add(top, top + size, used);
        if (s.zeros != 0) tiles.add_zero(top, used);
      } else if (s.kind == Kind::extend) {
        chain(s, top, nullptr);
      } else if (i + 1 < steps.size() && steps[i + 1].kind == Kind::join) {
        chain(s, top, &steps[++i]);
      } else {
        chain(s, top += size, nullptr);
      }
    }
  }
  if (tiles.flush != nullptr) tiles.flush(stack, used);
}

}  // namespace etalon
