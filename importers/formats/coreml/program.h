// Core ML's ML programs (MIL): a function of one block, operations with named arguments, weights
// in the message or in a blob file beside it.
#pragma once

#include <map>
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

  Value share() const;
};

// One operation as its translator sees it.
class Operation {
 public:
  Operation(GraphBuilder& graph, std::string its_type, std::string its_name,
            std::map<std::string, std::vector<Value>, std::less<>> inputs)
      : g(graph),
        type(std::move(its_type)),
        name(std::move(its_name)),
        inputs_(std::move(inputs)) {}
  GraphBuilder& g;
  const std::string type, name;

  bool has(std::string_view key) const;
  ValueId value(std::string_view key);  // a bad-input Error where it is not given
  std::vector<ValueId> values(std::string_view key);
  const Tensor* constant(std::string_view key) const;  // nullptr where it is no constant
  Ints integers(std::string_view key, Ints otherwise = {}) const;
  std::int64_t integer(std::string_view key, std::int64_t otherwise) const;
  bool flag(std::string_view key, bool otherwise) const;
  float number(std::string_view key, float otherwise) const;
  std::string text(std::string_view key, std::string_view otherwise) const;

 private:
  const Value* find(std::string_view key) const;
  ValueId made(Value& v, std::string_view key);
  std::map<std::string, std::vector<Value>, std::less<>> inputs_;
};

// The values of its outputs, in sequence.
std::vector<ValueId> translate(Operation& op);
std::vector<ValueId> translate_more(Operation& op);  // operations_more.cpp; empty: not of it

// `message` is field 502 of a Model; `folder` is where @model_path points.
Model open_program(const Blob& file, const std::string& path, const std::string& folder);

}  // namespace etalon::coreml
