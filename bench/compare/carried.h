// A bound carried through layers whose values the framework does not give out.
//
// Between two values that are there, the reference goes on alone: each value is a midpoint m and a
// bound E with |what the framework holds - m| <= E. A layer f with fresh bound B (any_order.h, on
// the midpoints) and Lipschitz majorant L gives the next pair
//   m' = f(m) rounded,   E' = (B + L(E)) (1 + 2^-8) + |m' - f(m)|
// where 2^-8 covers what rounding on inputs other than the midpoints, and the rounding of E itself,
// may add (both of second order). L is the same op on absolute values: sum |w| E for products,
// max E over a window, E for 1-Lipschitz functions. An op without such a majorant ends the chain:
// E is infinite and the verdict undecided.
#pragma once

#include <functional>
#include <map>

#include "bench/compare/verdict.h"
#include "engine/graph/graph.h"

namespace etalon {

class CarriedValues {
 public:
  CarriedValues(const Registry& registry, Contract contract, int threads, Isa isa,
                const FunctionAccuracy* functions);

  // Computes the node from the framework's values where there are any, else from carried ones.
  void step(const Node& node, const std::function<const Tensor*(ValueId)>& theirs);
  Judgement judge(ValueId value, const Tensor& got) const;

 private:
  struct Value {
    Tensor mid, error;  // error: f32, rounded up
    bool known = false;
  };
  bool majorant(const Node& node, const Layer& layer, const std::vector<const Tensor*>& errors,
                Tensor& result) const;

  Contract contract_;
  LayerEvaluator eval_;
  const FunctionAccuracy* functions_;
  std::map<ValueId, Value> values_;
};

}  // namespace etalon
