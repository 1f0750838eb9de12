// One ONNX node as a translator sees it: typed attributes and inputs on one side, ops of the engine
// on the other.
//
// Every attribute that the file gives must be read by the translator, otherwise the node is
// refused: an attribute that nobody looked at may change what the node means.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/fields.h"
#include "importers/formats/onnx/tensor.h"

namespace etalon::onnx_format {

struct Importing {
  Model* model = nullptr;
  std::int64_t opset = 0;
  std::int64_t ir = 0;
  // What is known of values while nodes are read: enough for the few old opsets whose meaning
  // depends on a rank or an element type. Ranks come from declarations too.
  std::map<ValueId, TensorType> types;
  std::map<ValueId, int> ranks;
  std::map<ValueId, DType> dtypes;
  std::map<ValueId, Code> codes;            // values that hold codes, as bytes (engine/ops/codes.h)
  std::set<std::string, std::less<>> read;  // names that a node or the graph's outputs read
  // Inside a subgraph: that graph, what is known around it, and the name of the node that owns it.
  Graph* inner = nullptr;
  Importing* outer = nullptr;
  std::string owner;
  Graph& graph() const { return inner != nullptr ? *inner : *model->graph; }
  // The value of this name; one that the graph around a subgraph makes brings what is known of it.
  ValueId value(const std::string& name);
};

// A subgraph of `outer`'s graph, owned by node `owner`.
std::shared_ptr<const Graph> read_subgraph(Importing& outer, pb::GraphProto& graph,
                                           const std::string& owner);

class OnnxNode {
 public:
  OnnxNode(Importing& into, pb::NodeProto& node, std::string name)
      : into_(into), node_(node), name_(std::move(name)) {}

  const std::string& type() const { return node_.op_type(); }
  std::int64_t opset() const { return into_.opset; }

  // --- attributes
  bool has_attribute(std::string_view attribute) const;
  std::int64_t integer(std::string_view attribute, std::int64_t otherwise) const;
  bool flag(std::string_view attribute, bool otherwise) const;  // an integer, 0 or 1
  float number(std::string_view attribute, float otherwise) const;
  std::string text(std::string_view attribute, std::string_view otherwise) const;
  Ints integers(std::string_view attribute) const;  // empty when absent
  std::vector<float> numbers(std::string_view attribute) const;
  std::vector<std::string> texts(std::string_view attribute) const;
  Tensor tensor(std::string_view attribute);  // absent when not given
  std::shared_ptr<const Graph> subgraph(std::string_view attribute);
  // A graph that no attribute holds, for a node to own: `write` gets its inputs, of these types,
  // and gives its outputs.
  using Values = std::vector<ValueId>;
  std::shared_ptr<const Graph> make_graph(
      std::string_view graph, const std::vector<DType>& inputs, const std::vector<DType>& outputs,
      const std::function<Values(OnnxNode&, const Values&)>& write);
  // Inside such a graph: a value of the graph around it.
  ValueId around(ValueId outer) const {
    return into_.value(into_.outer->graph().value_name(outer));
  }
  // Read and without meaning here (a hint for training or for memory).
  void ignore(std::string_view attribute) const;
  void refuse_unread() const;

  // --- inputs and outputs; an index beyond the list is absent
  std::size_t input_count() const { return static_cast<std::size_t>(node_.input_size()); }
  std::size_t output_count() const { return static_cast<std::size_t>(node_.output_size()); }
  bool has(std::size_t i) const { return input(i) != kAbsent; }
  ValueId input(std::size_t i) const;
  ValueId required(std::size_t i) const;  // a bad-input Error when it is absent
  std::vector<ValueId> inputs() const;
  bool wants(std::size_t i) const { return output(i) != kAbsent; }
  // Wanted, and read by somebody: old exporters name outputs that nobody reads.
  bool is_read(std::size_t i) const;
  ValueId output(std::size_t i) const;
  std::vector<ValueId> outputs() const;
  // The value of an input that does not change from run to run; nullptr when it may.
  const Tensor* constant(std::size_t i) const;
  // Its elements; refused with the input's name when they may change.
  Ints constant_integers(std::size_t i, std::string_view what) const;
  float constant_number(std::size_t i, std::string_view what) const;
  // nullopt where the file does not tell.
  std::optional<TensorType> type_of(std::size_t i) const;
  std::optional<DType> dtype_of(std::size_t i) const;
  std::optional<Code> code_of_input(std::size_t i) const;
  // Output i holds codes of this format.
  void set_code(std::size_t i, Code format) { into_.codes[output(i)] = format; }
  std::optional<int> rank_of(std::size_t i) const;
  // Refused, with what the rank decides, where it is not known.
  int rank_of(std::size_t i, std::string_view decides) const;

  // --- the engine's side
  // The node itself: the op under the node's name, from and to these values.
  void emit(std::string_view op, const Fields& fields, std::vector<ValueId> inputs,
            std::vector<ValueId> outputs);
  // A node that owns graphs.
  void emit_control(std::string_view op, const Fields& fields, std::vector<ValueId> inputs,
                    std::vector<std::shared_ptr<const Graph>> graphs);
  // A step that owns graphs and gives `count` values.
  Values step_control(std::string_view op, const Fields& fields, std::vector<ValueId> inputs,
                      std::vector<std::shared_ptr<const Graph>> graphs, std::size_t count);
  // From the node's inputs to its outputs as they stand.
  void emit(std::string_view op, const Fields& fields = {}) {
    emit(op, fields, inputs(), outputs());
  }
  // A step before or after it, to a new value.
  ValueId step(std::string_view op, const Fields& fields, std::vector<ValueId> inputs);
  ValueId new_value(std::string_view role);
  ValueId constant_value(std::string_view role, Tensor tensor);
  // The output itself is a constant.
  void emit_constant(Tensor tensor);
  // Output i is `value`, where it is wanted at all.
  void give(std::size_t i, ValueId value);
  // What was translated: "auto_pad SAME_UPPER ...".
  void note(std::string_view text);

 private:
  void learn(const Node& made);
  void learn_rank(const Node& made);
  const pb::AttributeProto* find(std::string_view attribute, std::int32_t type) const;
  Importing& into_;
  pb::NodeProto& node_;
  std::string name_;
  mutable std::set<std::string, std::less<>> read_;
  int steps_ = 0;
};

// One row for each ONNX op that is understood; the meaning of every opset is the translator's.
struct TranslatorRow {
  std::string_view type;  // "Conv", or with its domain: "com.microsoft.FusedConv"
  void (*translate)(OnnxNode& node);
};
const TranslatorRow* find_translator(std::string_view type);
// Why a type without a row is refused and what to do: ": sequences are not tensors".
std::string_view refusal_of(std::string_view type);

}  // namespace etalon::onnx_format
