// One layer under judgement: an op, its parameters and its very inputs; and the three evaluations
// that a verdict is made from: bits under a contract, the bound for any order, the truth.
//
// Each evaluation can be limited to a sample of the definition's slices. A sample is drawn by a
// counter-based generator from the number of slices alone, so that a verdict is a function of the
// tensors, never of the machine's speed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bench/compare/ulp.h"
#include "engine/backend/registry.h"
#include "engine/numerics/any_order.h"

namespace etalon {

struct Layer {
  const OpRow* op = nullptr;
  Params params;
  std::vector<Tensor> inputs;  // absent where an optional one is not given

  Layer share() const;
  std::vector<const Tensor*> input_pointers() const;
};

class LayerEvaluator {
 public:
  LayerEvaluator(const Registry& registry, int threads, Isa isa)
      : registry_(&registry), threads_(threads), isa_(isa) {}

  // Types of the outputs; throws what inference throws.
  std::vector<TensorType> output_types(const Layer& layer) const;
  // Whether there is a definition over number systems: bounds and samples need one.
  bool has_definition(const Layer& layer) const;
  std::int64_t slices(const Layer& layer, const Contract& contract) const;

  std::vector<Tensor> bits(const Layer& layer, const Contract& contract) const;
  // Only the outputs of the slices are computed; other elements are 0.
  std::vector<Tensor> bits(const Layer& layer, const Contract& contract,
                           const std::vector<std::int64_t>& slices) const;
  // In the order of output and index.
  std::vector<OutputBound> bounds(const Layer& layer, const Contract& contract,
                                  const AnyOrderModel& model,
                                  const std::vector<std::int64_t>& slices) const;
  // The truth of the outputs of the listed slices, one list for each output; `indices` are those
  // that bounds() found for the same slices.
  struct Truth {
    std::vector<Tensor> rounded, exact;
  };
  Truth truth(const Layer& layer) const;
  Truth truth(const Layer& layer, const std::vector<std::int64_t>& slices) const;
  // A kernel other than the definition computes the correctly rounded values: the truth is cheap.
  bool truth_is_fast(const Layer& layer) const;
  bool is_fast(const Layer& layer, const Contract& contract) const;

 private:
  struct Call;
  const KernelRow* definition(const Layer& layer) const;
  const Registry* registry_;
  int threads_;
  Isa isa_;
};

// All slices if there are at most `limit`, else `limit` of them drawn at random, ascending.
std::vector<std::int64_t> sample_slices(std::int64_t slices, std::int64_t limit);

}  // namespace etalon
