// What the code of a TorchScript archive computes with, and what of it needs no tensor's elements:
// sizes, lists, dictionaries, numbers, types.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "importers/containers/pickle.h"
#include "importers/formats/pytorch/aten.h"

namespace etalon::pytorch_format {

struct ScriptValue;
using ScriptItems = std::vector<ScriptValue>;
struct ScriptList;

struct ScriptValue {
  AtenValue plain;
  const PickleValue* object = nullptr;  // a module
  std::string name;                     // of a module its path, of a function its dotted name
  bool is_function = false;
  bool keyed = false;                // a dictionary: keys and values in turn
  std::shared_ptr<ScriptList> list;  // of a list, tuple or dictionary, under all its names
  std::vector<std::string> fields;   // of a NamedTuple: the names of its items

  const ScriptItems& items() const;

  bool is(AtenValue::Kind kind) const { return plain.kind == kind; }
  bool is_none() const {
    return plain.kind == AtenValue::Kind::none && object == nullptr && !is_function;
  }
};

// Lists stand in lists, at most 64 deep, and none in itself: what is put into a list that stands in
// another is no list.
struct ScriptList {
  ScriptItems items;
  int depth = 1;
  bool nested = false;
};

// What walking the code of one file may cost, in values that are looked at: a few lines can name
// long lists in loops.
class ScriptWork {
 public:
  void take(std::size_t values = 1) {
    if (values > left_) throw AtenUnknown{"code that computes with lists or numbers without end"};
    left_ -= values;
  }

 private:
  std::size_t left_ = std::size_t{1} << 23;
};

ScriptValue plain(AtenValue v);
ScriptValue integer(std::int64_t v);
ScriptValue number(double v);
ScriptValue flag(bool v);
ScriptValue text(std::string v);
ScriptValue list_of(ScriptItems items);
ScriptValue copied(const ScriptValue& list);  // another list of the same items
// Before item `at`; an AtenUnknown where that would nest too deeply.
void insert_into(const ScriptValue& list, std::size_t at, ScriptValue item);
AtenValue as_aten(const ScriptValue& v, ScriptWork& work);  // AtenUnknown of a module
std::int64_t negated(std::int64_t a);  // a bad-input Error where it does not fit

// A call of torch that needs no tensor's elements; none where it is an op on tensors.
std::optional<ScriptValue> known_call(const GraphBuilder& graph, const std::string& op,
                                      const std::vector<ScriptValue>& arguments, ScriptWork& work);
// int, float, bool of a number, or of a tensor of one that is known before a run.
ScriptValue converted(const GraphBuilder& graph, std::string_view to, const ScriptValue& v);

// Where a key stands in a dictionary's items, or an index in a list's; none where it does not.
std::optional<std::size_t> place_in(const ScriptValue& list, const ScriptValue& key,
                                    ScriptWork& work);

}  // namespace etalon::pytorch_format
