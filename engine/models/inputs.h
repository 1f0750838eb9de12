// Inputs for a network out of nothing: noise, the same on every machine.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "engine/core/tensor.h"
#include "engine/graph/graph.h"

namespace etalon {

using InputMap = std::map<std::string, Tensor, std::less<>>;

// Noise for every input, for timing and for a first look: floats uniform in [-1, 1), integers 0 or
// 1, from Philox with this seed, so that they are the same everywhere. Free extents: the first
// (axis 0) becomes `batch`, others make a usage Error that says to give --input.
// A built-in network that says how its inputs are drawn (word indices, lengths) draws them.
InputMap random_inputs(const Model& model, std::int64_t batch, std::uint64_t seed);

}  // namespace etalon
