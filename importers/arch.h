// Weights without a graph, given to a graph that is known: a built network or a neutral graph.
//
// A tensor goes to the initializer of its name and shape; prefixes that checkpoints put before
// names ("module.", "model.", "state_dict.", "model_state_dict.") are dropped where nothing matches
// with them. What is left is matched by shape alone, and only where one tensor and one initializer
// are left of that shape. Anything else is a bad-input Error that lists both sides: nothing is
// guessed. Element types must agree. Tensors that no initializer wants are allowed and told.
#pragma once

#include <string>
#include <vector>

#include "importers/importers.h"

namespace etalon {

struct Placement {
  std::string weight, tensor;  // "" where the file has none for it, or nothing wants the tensor
  std::string by;              // "name", "name without module.", "shape", "not used"
};

// `arch`: "model:NAME", or a file with a graph. The model has the graph of `arch` and the tensors
// of `path`; a note says how each was found.
Model open_with_arch(const std::string& path, std::span<const std::string> with,
                     const std::string& arch, std::vector<Placement>& placed);

}  // namespace etalon
