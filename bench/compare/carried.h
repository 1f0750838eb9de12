// A bound carried through layers whose values the framework does not give out.
//
// Between two values that are there, the reference goes on alone: each value is a midpoint m and a
// bound E with |what the framework holds - m| <= E. A layer f with fresh bound B (any_order.h, on
// the midpoints) and Lipschitz majorant L gives the next pair
//   m' = f(m) rounded,   E' = (B + L(E)) (1 + 2^-8) + |m' - f(m)|
// where 2^-8 covers what rounding on inputs other than the midpoints, and the rounding of E itself,
// may add (both of second order). L is the same op on absolute values: sum |w| E for products,
// max E over a window, slope E for functions (lipschitz.h). An op without such a majorant ends the
// chain: E is infinite and the verdict undecided.
//
// Products take B from the same op on absolute values, gamma(K + 3) (|x| * |w| + |b|), because that
// is as fast as the op itself; B counts twice there, once for the framework's rounding and once for
// m'. These sums, and those of L, are made in f32 too and may be too small by K u of themselves:
// they are divided by 1 - K u, and from K u = 1/4 on there is no statement. Quantised values are
// integers whose E is a number of steps: a value is uncertain only where the ball around x / scale
// holds the border between two integers, and then by the integers in it. E of everything else
// behind it is what those few steps can cause, not a share of the range.
//
// Control flow runs its body with pairs: carried and scanned values keep their E from one iteration
// to the next. A condition, a count or a branch that is not certain ends the chain.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "bench/compare/verdict.h"
#include "engine/graph/graph.h"

namespace etalon {

// |x| * |w| + |b| of a product in f32, and how many roundings a term may meet; nothing for other
// ops.
std::optional<Tensor> product_sizes(const LayerEvaluator& eval, const Layer& layer,
                                    std::int64_t& terms);

class CarriedValues {
 public:
  // The nodes to come are those of `graph`, which outlives this.
  CarriedValues(const Graph& graph, const Registry& registry, Contract contract, int threads,
                Isa isa, const LibraryAccuracy* library);

  using Theirs = std::function<const Tensor*(ValueId)>;
  // Computes the node from the framework's values where there are any, else from carried ones.
  void step(const Node& node, const Theirs& theirs);
  Judgement judge(ValueId value, const Tensor& got) const;

 private:
  struct Value {
    Tensor mid, error;  // error: f32, rounded up; absent where the value is certain
    bool known = false;
  };
  // For a body of a node of `around`.
  CarriedValues(const Graph& body, const CarriedValues& around);
  Value value_of(ValueId v, const Theirs& theirs) const;
  void control(const Node& node, const Theirs& theirs);  // carried_control.cpp
  std::vector<Tensor> run_body(const Graph& body, const std::map<std::string, Value>& around,
                               std::vector<Tensor> inputs, std::size_t loops, bool tested) const;
  Value quantized(const Layer& layer, const Tensor* error, Tensor mid) const;
  bool majorant(const Node& node, const Layer& layer, const std::vector<const Tensor*>& errors,
                const Tensor& mid, std::vector<Tensor>& results) const;

  const Graph& graph_;
  Contract contract_;
  LayerEvaluator eval_;
  const LibraryAccuracy* library_;
  std::map<ValueId, Value> values_;
};

}  // namespace etalon
