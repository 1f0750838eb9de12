// Core ML's ML programs (MIL): functions of one block, operations with named arguments, weights in
// the message or in a blob file beside it.
//   program_values.cpp     types, constants, the blob file
//   program.cpp            functions and blocks, one operation after the other
//   program_control.cpp    branches, loops, lists, states
//   operations*.cpp, program_recurrent.cpp, compressed.cpp    the operations
#pragma once

#include <map>
#include <span>
#include <string>
#include <vector>

#include "importers/containers/pbtree.h"
#include "importers/formats/translate.h"

namespace etalon::coreml {

// A value of a program: made by an op, a constant that no op has read yet, or text.
struct Value {
  ValueId id = kAbsent;
  Tensor constant;
  std::vector<std::string> texts;
  std::vector<Value> parts;  // of a tuple or list
  std::string state;         // the name of the state that it is; `id` is what stands in it first
  bool label = false;        // what a classifier says in words

  Value share() const;
};
using Arguments = std::map<std::string, std::vector<Value>, std::less<>>;

// One operation as its translator sees it.
class Operation {
 public:
  Operation(GraphBuilder& graph, std::string its_type, std::string its_name, Arguments inputs)
      : g(graph),
        type(std::move(its_type)),
        name(std::move(its_name)),
        inputs_(std::move(inputs)) {}
  GraphBuilder& g;
  const std::string type, name;

  bool has(std::string_view key) const;
  ValueId value(std::string_view key);  // a bad-input Error where it is not given
  std::vector<ValueId> values(std::string_view key);
  const Value* find(std::string_view key) const;       // nullptr where it is not given
  const Tensor* constant(std::string_view key) const;  // nullptr where it is no constant
  Ints integers(std::string_view key, Ints otherwise = {}) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  float number(std::string_view key, float otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;
  // Of a tuple of constant integers.
  Ints each_integer(std::string_view key) const;

  // Parts of what it becomes, by their roles.
  std::string part(std::string_view role) const { return fmt::format("{}.{}", name, role); }
  ValueId cast(std::string_view role, ValueId v, DType to) const;  // v where it is of that type
  ValueId i64(std::string_view role, ValueId v) const { return cast(role, v, DType::i64); }
  ValueId ints(std::string_view role, const Ints& values) const;
  ValueId scalar(std::string_view role, ValueId like, double value) const;        // of its type
  ValueId element(std::string_view role, ValueId vector, std::int64_t at) const;  // [1]

 private:
  ValueId made(Value& v, std::string_view key);
  Arguments inputs_;
};

inline constexpr std::int64_t kFar = std::int64_t{1} << 40;  // beyond any extent

// The values of its outputs, in sequence.
std::vector<ValueId> translate(Operation& op);
struct OperationRow {
  std::string_view type;
  std::vector<ValueId> (*write)(Operation&);
};
// By the row of its type; empty where there is none.
std::vector<ValueId> translate_among(std::span<const OperationRow> rows, Operation& op);
// The families that it asks; empty where it is none of theirs.
std::vector<ValueId> translate_more(Operation& op);        // operations_more.cpp
std::vector<ValueId> translate_places(Operation& op);      // operations_places.cpp
std::vector<ValueId> translate_sampling(Operation& op);    // operations_sampling.cpp
std::vector<ValueId> translate_lists(Operation& op);       // operations_lists.cpp
std::vector<ValueId> translate_sequences(Operation& op);   // program_recurrent.cpp
std::vector<ValueId> translate_compressed(Operation& op);  // compressed.cpp

// Whether the Model is an ML program, or a pipeline with one.
bool holds_program(const Blob& file);
// `folder` is where @model_path points.
Model open_program(const Blob& file, const std::string& path, const std::string& folder);

}  // namespace etalon::coreml
