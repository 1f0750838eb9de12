// What could be the cause: faults and narrower formats, each a replay of the layer.
//
// A hypothesis holds the layer as the suspect computed it, so that its truth and bounds come from
// the same definition. The table is generated from the op's own parameter fields (every boolean
// turned, every epsilon a framework is known to use, paddings moved, gates permuted), so a new op
// gets its hypotheses from its parameter list.
#pragma once

#include <string>
#include <vector>

#include "bench/compare/verdict.h"

namespace etalon {

struct Hypothesis {
  std::string cause;  // "epsilon is 0.001, not 1e-05"
  Verdict verdict = Verdict::wrong;
  Layer layer;
  bool flush_outputs = false;  // results below the smallest normal become zeros
};

std::vector<Hypothesis> hypotheses_for(const Layer& layer);

// Contracts of narrower accumulators and other roundings, replayed bit for bit.
struct ContractReplay {
  Contract contract;
  std::string cause;
};
std::vector<ContractReplay> narrow_contracts(std::int64_t terms);

}  // namespace etalon
