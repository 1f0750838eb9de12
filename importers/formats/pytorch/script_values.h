// What the code of a TorchScript archive computes with, and what of it needs no tensor's elements:
// sizes, lists, comparisons of numbers, types.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "importers/containers/pickle.h"
#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

struct ScriptValue {
  AtenValue plain;
  const PickleValue* object = nullptr;  // a module
  std::string name;                     // of a module its path, of a function its dotted name
  bool is_function = false;
  bool shared = false;  // a list that has another name, under which a change of it would show
  std::vector<ScriptValue> items;  // of a list or tuple

  bool is(AtenValue::Kind kind) const { return plain.kind == kind; }
  bool is_none() const {
    return plain.kind == AtenValue::Kind::none && object == nullptr && !is_function;
  }
};

ScriptValue plain(AtenValue v);
ScriptValue integer(std::int64_t v);
ScriptValue flag(bool v);
AtenValue as_aten(const ScriptValue& v);  // AtenUnknown of a module
std::int64_t negated(std::int64_t a);     // a bad-input Error where it does not fit

// A call of torch that needs no tensor's elements; none where it is an op on tensors.
std::optional<ScriptValue> known_call(const GraphBuilder& graph, const std::string& op,
                                      const std::vector<ScriptValue>& arguments);
// int, float, bool of a number.
ScriptValue converted(std::string_view to, const ScriptValue& v);

}  // namespace etalon::pytorch_format
