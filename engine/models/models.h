// The networks of the studies, built from ops: one file each, one row each in table.cpp.
//
// Topologies are those of the papers named in each file; a file says where a paper leaves a choice.
// Weights are not trained: each tensor is uniform from Philox (seed 1, stream = the tensor's place
// in the building), with the variance 2/fan_in of He et al. (arXiv 1502.01852) before a ReLU, so
// that activations neither vanish nor overflow with depth. The same bits on every machine: a
// network here is a workload, and its output hash a proof.
//
// Dropout is the identity at inference and is left out. Outputs are logits.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"

namespace etalon {

struct ModelRow {
  std::string_view name;     // "resnet50", as in "model:resnet50"
  std::string_view summary;  // one sentence
  std::string_view source;   // the paper
  Graph (*build)() = nullptr;
  // Where noise would mean nothing (word indices, lengths): inputs for a batch, from a seed.
  std::map<std::string, Tensor, std::less<>> (*inputs)(std::int64_t batch,
                                                       std::uint64_t seed) = nullptr;
};

std::span<const ModelRow> models();
const ModelRow* find_model(std::string_view name);  // nullptr when there is none

// "model:NAME" stands wherever the path of a model file may. The name behind the colon; empty when
// `path` is not of this form.
std::string_view built_model_name(std::string_view path);
// A usage Error that lists the names when there is no such network.
Model build_model(std::string_view name);

}  // namespace etalon
