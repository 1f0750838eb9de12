// One layer of a Keras file on its way to ops; layers.h says what each class means.
//   layers.cpp     which class is what; normalisation, several inputs
//   config.cpp     what the configuration says; activations, Dense
//   attention.cpp  layers of later Keras
//   windows.cpp    convolutions, pooling, padding, layout
//   recurrent.cpp  LSTM, GRU, SimpleRNN and the layers around layers
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

  ValueId kernel(std::size_t index, int axes);
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

  // ---- attention.cpp ----
  std::optional<ValueId> later();
  ValueId attention();
  ValueId group_norm();
  ValueId normalization();
  ValueId dot();

  // ---- several inputs ----
  std::vector<ValueId> aligned();
  ValueId merge(const std::string& op) { return b_.elementwise(op, name_, aligned()); }
  ValueId chain(const std::string& op);
  std::string recurrent_function(const json& config_of, std::string_view key,
                                 std::string_view missing, std::vector<float>& alpha,
                                 std::vector<float>& beta);
  ValueId recurrent(const std::string& type, const json& cfg, std::size_t first_weight,
                    bool reverse);
  void same_cell(const json& there, const json& back) const;
  ValueId bidirectional();
  ValueId time_distributed();

  GraphBuilder& b_;
  const Origin& origin_;
  const LayerCall& c_;
  const std::string& name_;
};

}  // namespace etalon::keras_format
