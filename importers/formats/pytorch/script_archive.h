// What a TorchScript archive holds of code: its files, which are read once, and the functions,
// methods and named tuples in them.
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

}  // namespace etalon::pytorch_format
