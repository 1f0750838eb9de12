// Writing ONNX: what one node of ours becomes in opset 21.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "importers/formats/onnx.h"
#include "importers/formats/onnx/node.h"

namespace etalon::onnx_format {

// What is known of a value whose extents may be free: -1.
struct FreeType {
  DType dtype = DType::f32;
  Ints extents;
};
using FreeTypes = std::map<ValueId, FreeType>;

// What the graphs of one file share while they are written.
struct Writing {
  std::set<std::string, std::less<>> names;
  // The opset of the file that the model came of; 0 where that was no ONNX.
  std::int64_t from_opset = 0;
  // What stands in the file in another form, each with the number of nodes.
  std::map<std::string, int> forms;
};

// One node of the engine's graph, its parameters by name, and the ONNX graph it is written into.
class NodeWriter {
 public:
  NodeWriter(const Graph& graph, const Node& node, std::map<ValueId, TensorType>& types,
             const FreeTypes& free, Writing& file, pb::GraphProto& out);

  const Node& node() const { return node_; }
  template <class T>
  const T& param(std::string_view field) const {
    for (const auto& [name, value] : params_)
      if (name == field) return std::get<T>(value);
    throw internal_error("op {} has no parameter {}", node_.op->name, field);
  }
  std::int64_t integer(std::string_view f) const { return param<std::int64_t>(f); }
  float number(std::string_view f) const { return param<float>(f); }
  bool flag(std::string_view f) const { return param<bool>(f); }
  const std::string& text(std::string_view f) const { return param<std::string>(f); }
  const Ints& integers(std::string_view f) const { return param<Ints>(f); }

  bool has(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i] != kAbsent; }
  std::string input(std::size_t i) const;
  std::vector<std::string> inputs() const;
  std::string output(std::size_t i) const;
  std::vector<std::string> outputs() const;
  // Of input 0; f32 where it cannot be told.
  DType dtype(std::size_t i = 0) const;
  // ONNX's number of the element type that a parameter names.
  std::int64_t dtype_of(std::string_view field) const;
  std::optional<Shape> shape(std::size_t i) const;  // nullopt where it cannot be told
  // Those of input i, -1 where one is free; where its rank cannot be told, a usage Error.
  Ints extents(std::size_t i) const;
  // The elements of input i where they are in the file.
  std::optional<Ints> integers_of(std::size_t i) const;
  // The opset the file must have at least, for what this node says; 21 where no node asks.
  void need_opset(std::int64_t opset) { opset_ = std::max(opset_, opset); }
  std::int64_t opset() const { return opset_; }
  // Whether the model came of a file whose opset has what `opset` brought.
  bool came_with(std::int64_t opset) const { return file_.from_opset >= opset; }
  std::string new_name(std::string_view role) { return fresh(role); }

  // A node from these names to those; attributes are set on what comes back.
  pb::NodeProto& write(std::string_view type, const std::vector<std::string>& inputs,
                       const std::vector<std::string>& outputs);
  pb::NodeProto& write(std::string_view type) { return write(type, inputs(), outputs()); }
  // The attribute `name` of `node` is this graph, which the engine's node owns.
  void set_graph(pb::NodeProto& node, std::string_view name, const Graph& inner);
  // The same node's writer into a graph that its attribute `name` is made.
  NodeWriter inside(pb::NodeProto& node, std::string_view name);
  // An input or output of the graph that is written into.
  void take(const std::string& name, DType dtype);
  void yield(const std::string& name, DType dtype);
  // A step to a new value, whose name comes back.
  std::string step(std::string_view type, const std::vector<std::string>& inputs,
                   std::string_view attribute = "", std::int64_t value = 0);
  std::string constant(std::string_view role, const Tensor& tensor);
  std::string constant(std::string_view role, const Ints& values);
  // One element of input 0's type.
  std::string number_constant(std::string_view role, float value);
  // Input i as given, or the parameter as a constant; "" where both are empty.
  std::string input_or(std::size_t i, std::string_view field);

 private:
  std::string fresh(std::string_view role);
  const Graph& graph_;
  const Node& node_;
  std::map<ValueId, TensorType>& types_;
  const FreeTypes& free_;
  Writing& file_;
  pb::GraphProto& out_;
  Fields params_;
  int written_ = 0;
  bool inner_ = false;
  std::int64_t opset_ = kWrittenOpset;
};

void set(pb::NodeProto& node, std::string_view name, std::int64_t value);
void set(pb::NodeProto& node, std::string_view name, float value);
void set(pb::NodeProto& node, std::string_view name, std::string_view value);
void set(pb::NodeProto& node, std::string_view name, const Ints& values);
void set(pb::NodeProto& node, std::string_view name, const std::vector<float>& values);
void set(pb::NodeProto& node, std::string_view name, const std::vector<std::string>& values);

struct WriterRow {
  std::string_view op;
  void (*write)(NodeWriter& w);
};
// The rows of each family; together they name every op of the table.
std::span<const WriterRow> plain_writers();     // one ONNX node of the same meaning
std::span<const WriterRow> function_writers();  // functions that ONNX lacks
std::span<const WriterRow> window_writers();    // windows, normalisation, resize
std::span<const WriterRow> recurrent_writers();
std::span<const WriterRow> loss_writers();
std::span<const WriterRow> integer_writers();  // products of integers, codes
std::span<const WriterRow> tflite_writers();   // TensorFlow Lite's arithmetic, bit for bit
std::span<const WriterRow> tflite_fixed_writers();
std::span<const WriterRow> hybrid_writers();
std::span<const WriterRow> tflite_recurrent_writers();
std::span<const WriterRow> control_writers();  // if, loop, scan
const WriterRow* find_writer(std::string_view op);

Saved save(const Model& model, const std::string& path);

}  // namespace etalon::onnx_format
