// What TensorFlow's operators mean, for every format that holds them: GraphDef, SavedModel,
// TensorFlow.js graph models and (in other words) TensorFlow Lite.
//
// Images are NHWC unless data_format says otherwise; the graph keeps the framework's shapes, and
// transposes stand only where an op wants channels first. Each convention that differs is a note.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/core/error.h"
#include "engine/graph/builder.h"

namespace etalon::tf {

using Attribute = std::variant<std::int64_t, float, std::string, Ints, std::vector<float>,
                               std::vector<std::string>>;

struct OpNode {
  std::string name, op;
  std::vector<ValueId> inputs;
  std::map<std::string, Attribute, std::less<>> attributes;

  bool has(std::string_view a) const { return attributes.contains(a); }
  std::int64_t integer(std::string_view a, std::int64_t otherwise = 0) const;
  float number(std::string_view a, float otherwise = 0) const;
  bool flag(std::string_view a, bool otherwise = false) const {
    return integer(a, otherwise ? 1 : 0) != 0;
  }
  std::string text(std::string_view a, std::string_view otherwise = "") const;
  Ints integers(std::string_view a) const;
  std::vector<std::string> texts(std::string_view a) const;
  ValueId in(std::size_t i) const;  // a bad-input Error when it is not there
};

// An index that is known before a run and lies beyond a list's end: the network stops there.
struct ListEnd : Error {
  explicit ListEnd(const Error& e) : Error(e) {}
};

// Operators of one operand that are an op of ours without parameters.
const std::map<std::string_view, std::string_view>& unary_ops();

class Ops {
 public:
  explicit Ops(GraphBuilder& graph) : g(graph) {}
  // The node's outputs; a bad-input Error names an operator that is not supported.
  std::vector<ValueId> translate(const OpNode& node);
  // Elements of a small integer value as far as they are known before a run, -1 where they hang on
  // a free extent; nullopt where nothing is known.
  std::optional<Ints> elements(ValueId v) const;
  // A number or truth value that is known before a run.
  std::optional<std::int64_t> known(ValueId v) const;
  bool is_list(ValueId v) const { return lists_.contains(v); }
  // Neither a list nor a complex value: what a graph can give, or hand to a body of its own. A
  // bad-input Error says which it is.
  ValueId complex_constant(const std::string& name, Tensor real, Tensor imaginary);
  void must_be_tensor(ValueId v, std::string_view what) const;
  // `next` where `holds`, which is a truth value, else `last`; of lists item by item, where `next`
  // differs from `now`.
  ValueId chosen(const std::string& name, ValueId holds, ValueId next, ValueId now, ValueId last);

 private:
  ValueId emit(std::string_view op, const Fields& fields = {});  // from the node's inputs
  ValueId emit(std::string_view op, const std::vector<ValueId>& in, const Fields& fields = {}) {
    return g.op(op, n_->name, in, fields);
  }
  std::string part(std::string_view role) const { return n_->name + "/" + std::string(role); }
  ValueId number(float value);
  // Elements of an input that hang on nothing.
  Ints constant_ints(std::size_t i, std::string_view what) const;
  std::int64_t constant_int(std::size_t i, std::string_view what) const;
  std::optional<Ints> fixed_ints(std::size_t i) const;
  bool counts(ValueId v, std::int64_t least) const;
  bool first() const;  // data_format is NC...
  ValueId to_first(ValueId x) { return first() ? x : g.channels_first(x); }
  ValueId from_first(ValueId y) { return first() ? y : g.channels_last(y); }
  Ints spatial(std::string_view attribute, int rank) const;
  void padding(Fields& fields, int rank, bool dilated);

  std::optional<ValueId> layers();  // one family each; nullopt: not of it
  std::optional<ValueId> elementwise();
  std::optional<ValueId> maths();      // ops_maths.cpp
  std::optional<ValueId> places();     // ops_places.cpp
  std::optional<ValueId> images();     // ops_images.cpp
  std::optional<ValueId> matrices();   // ops_matrices.cpp
  std::optional<ValueId> spectra();    // ops_spectra.cpp
  std::optional<ValueId> segmented();  // ops_segments.cpp
  std::optional<ValueId> shapes();
  std::optional<ValueId> indices();
  std::optional<ValueId> whole_line();
  std::optional<ValueId> folded_rows();
  std::optional<ValueId> folded();                   // counters of loops: scalars computed here
  std::optional<std::vector<ValueId>> selections();  // ops_selection.cpp
  std::optional<std::vector<ValueId>> cells();       // ops_cells.cpp
  std::vector<ValueId> block_lstm(bool sequence);
  std::vector<ValueId> block_gru();
  std::vector<ValueId> non_max_suppression();
  std::vector<ValueId> combined_non_max_suppression();
  std::vector<ValueId> soft_non_max_suppression(double sigma);
  std::vector<ValueId> unique();
  ValueId segments(const std::string& fold, ValueId x, ValueId ids, std::int64_t rows,
                   const std::vector<std::int64_t>* known);
  ValueId sparse_to_dense();
  ValueId update_slice();
  std::optional<ValueId> lists();  // TensorList...: values of loops
  ValueId list(std::vector<ValueId> items);
  std::vector<ValueId>& items(std::size_t i);
  const std::vector<ValueId>& items_of(ValueId list) const;
  std::vector<ValueId> new_items(std::size_t i) const;
  std::optional<ValueId> arrays();  // TensorArray...V3: lists that flow
  std::size_t item_index(std::size_t i, std::size_t count) const;
  ValueId stacked(const std::vector<ValueId>& items);
  ValueId conv();
  ValueId depthwise();
  ValueId conv_transpose();
  ValueId pool();
  ValueId batch_norm();
  ValueId matmul();
  ValueId fused();
  ValueId strided_slice();
  ValueId resize();
  ValueId complex(ValueId real, ValueId imaginary);
  std::pair<ValueId, ValueId> parts_of(std::size_t i) const;
  ValueId real_fft();
  ValueId strided_slice_at_run_time();
  ValueId image_patches();
  ValueId crop_and_resize();
  ValueId fake_quant();
  ValueId quantized_and_back();
  ValueId line_at_run_time(std::int64_t count);
  ValueId bincount();
  ValueId batch_norm_of_batch();
  ValueId batch_norm_of_parts();
  ValueId as_i64(std::string_view role, ValueId v);
  ValueId symmetric_pad(const Ints& pads);
  ValueId batched_gather(std::int64_t axis);
  ValueId space_to_batch();
  ValueId batch_to_space();
  ValueId activation(ValueId x, const std::string& kind);
  ValueId bias(ValueId x, ValueId b);

  GraphBuilder& g;
  const OpNode* n_ = nullptr;
  // A list's value is a constant that stands for it; a changed list is another value.
  std::map<ValueId, std::vector<ValueId>> lists_;
  // A complex value is a constant that stands for its parts, real and imaginary.
  std::map<ValueId, std::pair<ValueId, ValueId>> complex_;
};

}  // namespace etalon::tf
