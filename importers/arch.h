// Weights without a graph, given to a graph that is known: a built network or a file that holds
// one.
//
// A tensor goes to the weight of its name. Prefixes that checkpoints put before names ("module.",
// "model.", "state_dict.", "model_state_dict.") are dropped where nothing matches with them, and
// "conv1/W", "conv1.kernel" are "conv1.weight". Where the file has all names of a known
// implementation of the network (arch_names.h), they are it. What is left is matched by shape
// alone, and only
// where one tensor and one weight are left of that shape. Anything else is a bad-input Error that
// lists both sides: nothing is guessed. Two statements of the user's settle what is ambiguous:
// single placements, or that the file's order is the network's. Tensors that no weight wants are
// allowed and told.
//
// Weights are first laid out as the network's nodes want them (weight_layout.h), by what the format
// says or the user. Where neither does, names of the network's own say that its layout is meant;
// without these, a kernel of more than one tap (flipped or not?) and a square matrix (transposed or
// not?) are refused.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "importers/importers.h"

namespace etalon {

struct ArchOptions {
  std::string network;              // "lenet", "model:lenet", or a file with a graph
  std::string weights_of;           // the framework whose layout the weights have; "": not said
  std::vector<std::string> places;  // "WEIGHT=TENSOR"
  bool in_order = false;            // the tensors are the network's weights, one after the other
};

struct Placement {
  std::string weight, tensor;  // weight "": nothing wants the tensor
  // "name", "name without module.", "spelling", "torchvision's name", "shape", "order", "placed",
  // "not used"
  std::string by;
  std::string change;  // "flipped", "transposed"; "": as stored
};

// The model has the graph of `arch` and the tensors of `path`; a note says how each was found.
Model open_with_arch(const std::string& path, std::span<const std::string> with,
                     const ArchOptions& arch, std::vector<Placement>& placed);

}  // namespace etalon
