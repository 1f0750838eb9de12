// Builds a graph node by node, for networks written here and for translators of other formats.
//
// Each type is inferred at once, so that a layer knows the extents before it and a shape that does
// not fit is refused where it is written. An extent that is free (the batch) is tried at two sizes:
// what differs between them downstream is free there too. Elements that hang on extents alone are
// known at both sizes (known_values.h). A type that hangs on elements known only at run time is
// unknown, and so is what follows from it.
//
// Channels-last frameworks: channels_first() and channels_last() put transposes around the ops that
// want channels first. They cancel, fold into constants, and move through elementwise(); finish()
// drops every node that no output needs, so that a chain of layers keeps no transpose but the first
// and the last.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/ops/fields.h"

namespace etalon {

class GraphBuilder {
 public:
  explicit GraphBuilder(std::string name) : name_(std::move(name)) {}

  // What is known of a value's type at either size of the free extents.
  struct Sizes {
    std::optional<TensorType> one, other;
    bool operator==(const Sizes&) const = default;
  };

  // An extent of -1 is free: axis 0 is then called "batch". `nominal` gives the sizes that free
  // extents are inferred with, 1 where it has none.
  ValueId input(const std::string& name, DType dtype, const Ints& dims, const Ints& nominal = {});
  // An input of a body: of the type of a value of the graph around it.
  ValueId input(const std::string& name, const Sizes& sizes);
  // Names of values and nodes that are taken get a number behind them.
  ValueId constant(const std::string& name, Tensor value);

  // One node under this name; its value, or the first of them, is named as the node. A bad-input
  // Error names the node.
  ValueId op(std::string_view op, const std::string& name, const std::vector<ValueId>& inputs,
             const Fields& fields = {});
  ValueId node(std::string_view op, const std::string& name, const std::vector<ValueId>& inputs,
               Params params);
  std::vector<ValueId> nodes(std::string_view op, const std::string& name,
                             const std::vector<ValueId>& inputs, Params params,
                             std::size_t outputs);
  // A node that owns graphs (engine/ops/control.h), which read nothing but their inputs: a value
  // for each of `outputs`.
  std::vector<ValueId> control(std::string_view op, const std::string& name,
                               const std::vector<ValueId>& inputs, std::vector<Graph> bodies,
                               const std::vector<Sizes>& outputs, const Fields& fields = {});

  bool known(ValueId v) const { return slot(v).type.has_value(); }
  const TensorType& type(ValueId v) const;  // a bad-input Error where it is unknown
  Sizes sizes(ValueId v) const { return {slot(v).type, slot(v).other}; }
  const Shape& shape(ValueId v) const { return type(v).shape; }
  DType dtype(ValueId v) const { return type(v).dtype; }
  int rank(ValueId v) const { return shape(v).rank(); }
  Ints dims(ValueId v) const;  // -1 where free
  // An extent at either size of the free ones: two that agree at both are one.
  std::pair<std::int64_t, std::int64_t> extents(ValueId v, int axis) const;
  const Tensor* constant_of(ValueId v) const;  // nullptr where it is none
  // The elements of a small vector or number of integers at either size of the free extents;
  // nullptr where more than extents decides them.
  std::pair<const Tensor*, const Tensor*> known_elements(ValueId v) const;
  const std::string& name_of(ValueId v) const { return slot(v).name; }

  // Those that fold: a constant is transposed or reshaped here, a permutation that changes nothing
  // is not written, and of two in a row one is left.
  ValueId transpose(const std::string& name, ValueId x, const Ints& perm);
  ValueId reshape(const std::string& name, ValueId x, const Ints& shape);  // 0 copies, -1 is left
  // [N, spatial, C] to [N, C, spatial] and back.
  ValueId channels_first(ValueId x);
  ValueId channels_last(ValueId x);
  // An elementwise op whose operands broadcast: it is applied channels first where its operands
  // stand so, and comes back channels last.
  ValueId elementwise(std::string_view op, const std::string& name,
                      const std::vector<ValueId>& inputs, const Fields& fields = {});

  // Adds an output; with a name, the value is renamed, or copied where it has to keep its own. A
  // value that only stands inside gives the name up.
  void output(ValueId v, const std::string& name = "");
  // One sentence of Model::notes; the same one is written once.
  void note(std::string text);
  std::vector<std::string> take_notes() { return std::move(notes_); }
  // Drops what no output needs, checks the graph and gives it away. Inputs stay.
  Graph finish();

 private:
  struct Slot {
    std::string name;
    std::optional<TensorType> type, other;     // at either size of the free extents
    int maker = -1;                            // its node
    std::optional<Tensor> value, other_value;  // where it hangs on extents alone
    bool input = false, output = false;
  };
  const Slot& slot(ValueId v) const;
  ValueId add(const std::string& name, std::optional<TensorType> type,
              std::optional<TensorType> other);
  // How often a name was asked for, and whose it is.
  struct Taken {
    int count = 0;
    ValueId value = kAbsent;
  };
  using Names = std::unordered_map<std::string, Taken>;
  static std::string fresh(const std::string& name, Names& taken);
  void free_name(const std::string& name);
  ValueId first_twin(ValueId x) const;  // of a value made by channels_last; kAbsent otherwise
  const Params* transpose_behind(ValueId x) const;

  std::string name_;
  std::deque<Slot> slots_;  // a shape that was asked for stays where it is while values are added
  std::vector<Node> nodes_;
  std::vector<std::pair<ValueId, Declaration>> inputs_;
  std::vector<ValueId> outputs_;
  std::map<ValueId, Tensor> constants_;
  std::map<std::pair<ValueId, Ints>, ValueId> transposed_;
  Names value_names_, node_names_;
  std::vector<std::string> notes_;
  std::unordered_set<std::string> noted_;
};

}  // namespace etalon
