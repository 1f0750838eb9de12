// A graph of ops in static single assignment: every value is made once, by an input, an initializer
// or one node. Nodes may own subgraphs (If, Loop, Scan read the values of the graph around them).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tensor.h"
#include "engine/ops/op.h"

namespace etalon {

using ValueId = std::int32_t;
inline constexpr ValueId kAbsent = -1;  // an optional input that is not given

// A graph input or output as declared: an extent may be a name ("batch") or unknown.
struct Declaration {
  ValueId value = kAbsent;
  DType dtype = DType::f32;
  bool ranked = true;
  std::vector<std::int64_t> dims;      // -1: not fixed
  std::vector<std::string> dim_names;  // same length; "" where it has none
};

struct Graph;

struct Node {
  std::string name;
  const OpRow* op = nullptr;
  Params params;
  std::vector<ValueId> inputs;   // kAbsent where an optional input is not given
  std::vector<ValueId> outputs;  // kAbsent where an optional output is not wanted
  std::vector<std::shared_ptr<const Graph>> subgraphs;
};

struct Graph {
  std::string name;
  std::vector<std::string> value_names;  // by ValueId; unique
  std::vector<Declaration> inputs;       // those without an initializer
  std::vector<Declaration> outputs;
  std::vector<Node> nodes;  // topologically sorted
  std::map<ValueId, Tensor> initializers;

  ValueId add_value(std::string name);              // bad-input Error when the name is taken
  ValueId find_value(std::string_view name) const;  // kAbsent when there is none
  const std::string& value_name(ValueId id) const;
  // Checks single assignment and that every use is defined; sorts nodes; names the cycle otherwise.
  void finish();

 private:
  std::map<std::string, ValueId, std::less<>> index_;
};

// What a file held: a graph (or only tensors) with where it came from.
struct Model {
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();
  std::string format;    // "onnx"
  std::string producer;  // "pytorch 2.15"
  std::string version;   // "opset 18, ir 9"
  std::string path;
  std::vector<std::string> notes;  // every translation of a convention, one sentence each
};

// Checks a given input against its declaration; the Error names input, expected and got.
void check_input(const Graph& graph, const Declaration& declared, const TensorType& got);

}  // namespace etalon
