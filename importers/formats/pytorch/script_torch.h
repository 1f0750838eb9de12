// Calls of torch in the code of TorchScript: their arguments as the ops of ATen take them, tensors
// as their names stand now, and what they may cost.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "importers/formats/pytorch/aliases.h"
#include "importers/formats/pytorch/script_quantised.h"
#include "importers/formats/pytorch/script_values.h"

namespace etalon::pytorch_format {

class TorchCalls {
 public:
  TorchCalls(GraphBuilder& graph, Aliases& aliases, QuantisedCalls& quantised, ScriptWork& work,
             std::size_t file_bytes);

  // torch.op; an empty keyword is an argument by its place. AtenUnknown where it is not known.
  ScriptValue call(const std::string& op, std::vector<ScriptValue> args,
                   const std::vector<std::string>& keywords);
  // The value that a tensor's name stands for now.
  ScriptValue now(ScriptValue v) const;
  // Zeros that are no state, as a tensor: one, which calls may change in place.
  AtenValue zeros(const ScriptValue& v);

 private:
  ValueId tensor_of(const AtenValue& v);
  void make_tensors(const std::string& op, AtenCall& c);
  void count_copies(const AtenCall& c);
  void count_bytes(ValueId v);

  GraphBuilder& b_;
  Aliases& aliases_;
  QuantisedCalls& quantised_;
  ScriptWork& work_;
  std::map<std::shared_ptr<ScriptList>, ValueId> zeros_;
  std::size_t copies_;
};

}  // namespace etalon::pytorch_format
