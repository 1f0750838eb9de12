// The code of a TorchScript archive, walked into a graph. It is read, never run: modules and
// settings come from the pickle, calls of ATen become nodes, a branch is taken and a loop walked
// where what decides them is known without input, at most 200 000 statements are walked.
#pragma once

#include <string>
#include <vector>

#include "importers/formats/pytorch/script_archive.h"

namespace etalon::pytorch_format {

// What `forward` of a module takes behind the module itself: a tensor, or several where it is a
// tuple or a list of such.
struct ScriptParameter {
  std::string name, type;
  bool has_default = false;
};
std::vector<ScriptParameter> forward_parameters(ScriptArchive& archive, const PickleValue& root);

// The values that `forward` gives for its inputs, an argument each; names are empty where it gives
// no dictionary. AtenUnknown names what has no translation; a bad-input Error what does not fit.
struct ScriptOutput {
  ValueId value = kAbsent;
  std::string name;
};
std::vector<ScriptOutput> walk_script(ScriptArchive& archive, GraphBuilder& graph,
                                      std::size_t file_bytes, const PickleValue& root,
                                      std::vector<ScriptValue> arguments);

}  // namespace etalon::pytorch_format
