// One layer of a Keras file on its way to ops; layers.h says what each class means.
//   layers.cpp     which class is what; normalisation, several inputs
//   config.cpp     what the configuration says; activations, Dense
//   attention.cpp  attention
//   norms.cpp      norms by group and by length, products along axes
//   operations.cpp functions of keras.ops
//   tensorflow_calls.cpp  functions of TensorFlow
//   images.cpp     resizing, cropping, encodings before a network
//   windows.cpp    convolutions, pooling, padding, layout
//   cell_weights.cpp  weights of cells as each version keeps them
//   recurrent.cpp  cells of LSTM, GRU, SimpleRNN along a sequence
//   sequences.cpp  the layers around cells and layers
//   conv_lstm.cpp  recurrent layers whose products are convolutions
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/layers.h"

namespace etalon::keras_format {

using nlohmann::json;

class Translator {
 public:
  Translator(GraphBuilder& b, const Origin& origin, const LayerCall& call)
      : b_(b), origin_(origin), c_(call), name_(call.name) {}

  ValueId run();
  // What a recurrent layer gives behind its first value.
  std::vector<ValueId> take_states() { return std::move(states_); }

 private:
  ValueId x() const {
    if (c_.inputs.empty()) throw bad_input("the layer has no input");
    return c_.inputs[0];
  }
  ValueId weight(std::size_t i) const {
    if (i >= c_.weights.size())
      throw bad_input("the file has {} weights for it, at least {} are needed", c_.weights.size(),
                      i + 1);
    return c_.weights[i];
  }

  // ---- configuration ----
  const json* find(std::string_view key) const {
    const auto at = c_.config.find(std::string(key));
    return at == c_.config.end() || at->is_null() ? nullptr : &*at;
  }
  const json& config(std::string_view key) const { return json_member(c_.config, key); }
  const json& list(std::string_view key) const { return json_array(c_.config, key); }
  static float as_float(const json& v);
  float number(std::string_view key, float missing) const;
  std::int64_t integer(std::string_view key, std::int64_t missing) const;
  bool flag(std::string_view key, bool missing) const;
  std::string text(std::string_view key, std::string_view missing) const;
  Ints window(std::string_view key, int axes, std::int64_t missing) const;
  bool channels_last() const {
    if (const json* v = find("data_format")) return *v != "channels_first";
    if (const json* v = find("dim_ordering")) return *v != "th";
    return true;
  }
  static int spatial_of(const std::string& type);

  ValueId activation(ValueId v, const json& how);
  ValueId activation_named(ValueId v, const std::string& f);
  ValueId finish(ValueId v);
  ValueId relu_layer();

  // ---- matrices ----
  bool has_bias() const { return flag("use_bias", flag("bias", true)); }
  ValueId dense(ValueId v);

  ValueId kernel(std::size_t index, int axes) { return turned_kernel(weight(index), axes); }
  ValueId turned_kernel(ValueId w, int axes);
  ValueId flipped(ValueId w, int axes, int first);
  void pad(Fields& fields, int axes, const Ints& extent, const Ints& dilation);
  Ints strides(int axes) const;
  ValueId first(ValueId v) { return channels_last() ? b_.channels_first(v) : v; }
  ValueId last(ValueId v) { return channels_last() ? b_.channels_last(v) : v; }

  ValueId conv(int axes);
  ValueId depthwise_kernel(std::size_t index, int axes);
  ValueId depthwise_conv(int axes, const std::string& name, std::size_t bias);
  ValueId depthwise(int axes) { return finish(last(depthwise_conv(axes, name_, 1))); }
  ValueId separable(int axes);
  ValueId conv_transpose(int axes);

  ValueId pool(const std::string& op, int axes);
  ValueId global_pool(const std::string& op);
  ValueId masked_mean();
  ValueId flatten();
  std::vector<std::pair<std::int64_t, std::int64_t>> margins(std::string_view key, int axes) const;
  ValueId zero_padding(int axes);
  ValueId cropping(int axes);
  ValueId up_sampling(int axes);

  ValueId filled(const std::string& part, std::int64_t count, float value);
  ValueId batch_norm();
  ValueId layer_norm();

  // ---- old_layers.cpp ----
  ValueId highway();
  ValueId maxout();
  ValueId s_relu();
  ValueId parametric_softplus();
  ValueId deconvolution();
  ValueId locally_connected(int axes);

  std::optional<ValueId> later();
  // ---- attention.cpp ----
  ValueId mask(std::size_t i) const { return i < c_.masks.size() ? c_.masks[i] : kAbsent; }
  ValueId pairs_that_count(ValueId query, ValueId value);
  ValueId multi_head_attention();
  ValueId dot_attention();
  // ---- norms.cpp ----
  ValueId group_norm();
  ValueId normalization();
  ValueId rms_norm();
  ValueId spectral_norm();
  ValueId product_along(ValueId a, ValueId b, const json& axes, bool unit);
  ValueId cosine();
  ValueId einsum_dense();
  // ---- operations.cpp ----
  ValueId operation();
  std::optional<ValueId> moved();
  ValueId get_item(const json& how);
  // ---- tensorflow_calls.cpp ----
  struct Given;
  Given given_to(const std::string& function);
  ValueId several(std::vector<ValueId> all);  // the first, the others behind it
  ValueId tensorflow_function();
  ValueId tensorflow_node();
  // ---- images.cpp ----
  ValueId resizing();
  ValueId resized(ValueId v, std::int64_t height, std::int64_t width, const std::string& how);
  ValueId center_crop();
  ValueId one_hot(ValueId indices, std::int64_t categories);
  ValueId encoded(ValueId indices, std::int64_t categories, const std::string& how);
  ValueId category_encoding();
  static std::vector<float> numbers(const json& v);
  ValueId rescaling();
  ValueId discretization();

  // ---- several inputs ----
  std::vector<ValueId> aligned();
  ValueId merge(const std::string& op) { return b_.elementwise(op, name_, aligned()); }
  ValueId chain(const std::string& op);

  // ---- recurrent.cpp ----
  std::string recurrent_function(const json& config_of, std::string_view key,
                                 std::string_view missing, std::vector<float>& alpha,
                                 std::vector<float>& beta);
  struct Cell {
    std::string type;  // "LSTM", "GRU", "SimpleRNN"
    const json& config;
    std::size_t first_weight;
    bool cudnn = false;
  };
  // ---- cell_weights.cpp ----
  struct CellWeights {
    ValueId kernel = kAbsent, recurrent = kAbsent, bias = kAbsent;  // [in, gates], [units, gates]
  };
  const Tensor& constant_weight(std::size_t i) const;
  CellWeights joined_weights(const Cell& cell, const std::string& label);
  CellWeights cudnn_weights(const Cell& cell, const std::string& label);
  CellWeights cell_weights(const Cell& cell, const std::string& label);
  // A cell as an op: its name, weights and fields, all but the direction.
  struct CellOp {
    std::string op;
    std::vector<ValueId> weights;  // w, r, b; b may be kAbsent
    std::int64_t units;
    Fields fields;
  };
  CellOp cell_op(const Cell& cell, const std::string& label);
  struct Along {
    ValueId x;
    ValueId mask = kAbsent;
    std::vector<ValueId> states = {};  // [N, H] each; empty: zeros
    bool backwards = false;
    bool zeroed = false;  // a masked step gives zeros, not what stood before
  };
  struct Sequence {
    ValueId values, last;         // [N, T, H] in the order of x; [N, H], of the last step taken
    std::vector<ValueId> states;  // [N, H]
  };
  Sequence run_cell(const Cell& cell, const std::string& label, const Along& along);
  Sequence run_masked(const CellOp& cell, const std::string& label, const Along& along);
  // A constant 0 of [N, extents...], N that of x.
  ValueId zeros(const std::string& name, ValueId like, const Ints& extents);
  ValueId turned(const std::string& name, ValueId sequence);  // its steps the other way round
  // ---- sequences.cpp ----
  static bool flag_of(const json& config, const char* key, bool missing);
  std::vector<Cell> cells(const std::string& type, const json& config, std::size_t first_weight);
  ValueId recurrent(const std::string& type, const json& config, std::size_t first_weight,
                    const std::string& label, Along along, bool turn);
  ValueId recurrent_layer();
  void same_cell(const json& there, const json& back) const;
  ValueId bidirectional();
  ValueId time_distributed();
  // ---- conv_lstm.cpp ----
  ValueId gates_beside(std::size_t part);
  ValueId conv_lstm(int axes);

  GraphBuilder& b_;
  const Origin& origin_;
  const LayerCall& c_;
  const std::string& name_;
  std::vector<ValueId> states_;
};

}  // namespace etalon::keras_format
