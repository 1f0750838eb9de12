// The neutral graph: what jobs for framework runners and replayable cases are written in.
//
// One JSON file for the graph and one safetensors file beside it for the weights:
//
//   {"etalon_graph": 1,
//    "name": "lenet", "format": "onnx", "producer": "...", "version": "opset 18", "notes": ["..."],
//    "weights": "lenet.safetensors",              // beside this file; absent: no initializers
//    "inputs":  [{"name": "x", "dtype": "f32", "dims": ["batch", 1, 28, 28]}],
//    "outputs": [{"name": "y", "dtype": "f32", "dims": ["batch", 10]}],
//    "nodes":   [{"name": "conv1", "op": "conv", "params": {"groups": 1, ...},
//                 "inputs": ["x", "conv1.weight", ""], "outputs": ["t1"]}]}
//
// dims: a number, a name, or null where unknown; "dims": null where even the rank is. "" among a
// node's inputs or outputs is one that is not given. `params` has every field of the op's
// parameters, typed as in engine/ops (enumerations and element types as their names); a float is
// the exact f32 value, or "inf", "-inf", "nan". A missing field keeps the op's default, an unknown
// one is an error. Values without a maker among nodes and inputs are tensors of the weights file.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "engine/graph/graph.h"
#include "importers/importers.h"

namespace etalon {

nlohmann::json params_to_json(const Params& params);
Params params_from_json(const OpRow& op, const nlohmann::json& params);

// The JSON names the weights by their file name: both files belong into one folder.
void save_neutral(const Model& model, const std::string& json_path,
                  const std::string& weights_path);
Model open_neutral(const std::string& json_path, std::span<const std::string> with = {});

const FormatRow& neutral_format();

}  // namespace etalon
