// The code of a TorchScript archive, walked into a graph. It is read, never run: modules and
// settings come from the pickle, calls of ATen become nodes, a branch is taken and a loop walked
// where what decides them is known without input, at most 200 000 statements are walked.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "importers/containers/zip.h"
#include "importers/formats/pytorch/script_syntax.h"
#include "importers/formats/pytorch/script_values.h"
#include "importers/formats/pytorch/tensors.h"

namespace etalon::pytorch_format {

// What is the same for every extent that is tried.
struct ScriptArchive {
  const ZipReader& zip;
  std::string folder;
  Storages& storages;
  std::optional<Pickle> constants;
  std::unique_ptr<ZipStorages> constant_storages;
  std::map<std::string, ScriptFile, std::less<>> files;
  std::map<const PickleValue*, Tensor> tensors;

  // "__torch__.a.b.Class.method" stands in code/__torch__/a/b.py; `name` is the last part or two.
  const ScriptFunction* function(std::string_view module, std::string_view name);
  const ScriptFunction* method(std::string_view type, std::string_view name);
  // The fields of a NamedTuple; nullptr where it is none.
  const std::vector<std::string>* tuple(std::string_view module, std::string_view name);

  ScriptWork work;  // left of what reading the file may cost, however often its code is walked

 private:
  const ScriptFile& file(std::string_view module);
};

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
