#include "importers/formats/keras/layers.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"

namespace etalon::keras_format {
namespace {

using nlohmann::json;

class Translator {
 public:
  Translator(GraphBuilder& b, const Origin& origin, const LayerCall& call)
      : b_(b), origin_(origin), c_(call), name_(call.name) {}

  ValueId run() {
    const std::string& t = c_.type;
    if (is_identity(t)) return x();
    if (t == "Dense") return dense(x());
    if (t == "Activation") return activation(x(), config("activation"));
    if (t == "ReLU") return relu_layer();
    if (t == "LeakyReLU") {
      const json* slope =
          find("negative_slope") != nullptr ? find("negative_slope") : find("alpha");
      return b_.elementwise("leaky_relu", name_, {x()},
                            {{"alpha", slope == nullptr ? 0.3F : as_float(*slope)}});
    }
    if (t == "ELU") return b_.elementwise("elu", name_, {x()}, {{"alpha", number("alpha", 1)}});
    if (t == "ThresholdedReLU")
      return b_.elementwise("thresholded_relu", name_, {x()}, {{"alpha", number("theta", 1)}});
    if (t == "PReLU") return b_.op("prelu", name_, {x(), weight(0)});
    if (t == "Softmax") return b_.op("softmax", name_, {x()}, {{"axis", integer("axis", -1)}});
    if (t == "Conv1D" || t == "Convolution1D") return conv(1);
    if (t == "Conv2D" || t == "Convolution2D" || t == "AtrousConvolution2D") return conv(2);
    if (t == "Conv3D" || t == "Convolution3D") return conv(3);
    if (t == "DepthwiseConv2D") return depthwise(2);
    if (t == "DepthwiseConv1D") return depthwise(1);
    if (t == "SeparableConv2D" || t == "SeparableConvolution2D") return separable(2);
    if (t == "SeparableConv1D") return separable(1);
    if (t == "Conv2DTranspose" || t == "Deconvolution2D") return conv_transpose(2);
    if (t == "Conv1DTranspose") return conv_transpose(1);
    if (t.starts_with("MaxPool")) return pool("max_pool", spatial_of(t));
    if (t.starts_with("AveragePool")) return pool("avg_pool", spatial_of(t));
    if (t.starts_with("GlobalMaxPool")) return global_pool("global_max_pool");
    if (t.starts_with("GlobalAveragePool")) return global_pool("global_avg_pool");
    if (t == "Flatten") return flatten();
    if (t == "Reshape") {
      Ints shape{0};
      for (const json& d : list("target_shape")) shape.push_back(json_integer(d, "target_shape"));
      return b_.reshape(name_, x(), shape);
    }
    if (t == "Permute") {
      Ints perm{0};
      for (const json& d : list("dims")) perm.push_back(json_integer(d, "dims"));
      return b_.transpose(name_, x(), perm);
    }
    if (t == "RepeatVector") {
      const ValueId y = b_.op("unsqueeze", name_ + ".axis", {x()}, {{"axes", Ints{1}}});
      return b_.op("tile", name_, {y}, {{"repeats", Ints{1, integer("n", 1), 1}}});
    }
    if (t.starts_with("ZeroPadding")) return zero_padding(spatial_of(t));
    if (t.starts_with("Cropping")) return cropping(spatial_of(t));
    if (t.starts_with("UpSampling")) return up_sampling(spatial_of(t));
    if (t == "BatchNormalization") return batch_norm();
    if (t == "LayerNormalization") return layer_norm();
    if (t == "Rescaling") {
      const ValueId y = b_.elementwise(
          "mul", name_ + ".scale",
          {x(), b_.constant(name_ + ".scale_by", Tensor::of<float>({}, {number("scale", 1)}))});
      return b_.elementwise(
          "add", name_,
          {y, b_.constant(name_ + ".offset", Tensor::of<float>({}, {number("offset", 0)}))});
    }
    if (t == "Add") return merge("sum");
    if (t == "Average") return merge("mean");
    if (t == "Maximum") return merge("max");
    if (t == "Minimum") return merge("min");
    if (t == "Multiply") return chain("mul");
    if (t == "Subtract") return chain("sub");
    if (t == "Concatenate") {
      return b_.op("concat", name_, c_.inputs, {{"axis", integer("axis", -1)}});
    }
    if (t == "Merge") {  // Keras 1
      const std::string mode = text("mode", "sum");
      if (mode == "sum") return merge("sum");
      if (mode == "ave") return merge("mean");
      if (mode == "max") return merge("max");
      if (mode == "mul") return chain("mul");
      if (mode == "concat")
        return b_.op("concat", name_, c_.inputs, {{"axis", integer("concat_axis", -1)}});
      throw UnknownLayer{"Merge of mode " + mode};
    }
    if (t == "Embedding") {
      b_.note("An embedding's indices are taken as whole numbers, whatever type they come in.");
      ValueId i = x();
      if (is_floating(b_.dtype(i)))
        i = b_.op("cast", name_ + ".indices", {i}, {{"to", std::string("i64")}});
      return b_.op("gather", name_, {weight(0), i}, {{"axis", std::int64_t{0}}});
    }
    if (t == "LSTM" || t == "GRU" || t == "SimpleRNN") return recurrent(t, c_.config, 0, false);
    if (t == "Bidirectional") return bidirectional();
    if (t == "TimeDistributed") return time_distributed();
    throw UnknownLayer{"layer class " + t};
  }

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
  static float as_float(const json& v) {
    if (v.is_object() && v.contains("config") && v["config"].contains("value"))
      return as_float(v["config"]["value"]);  // an array, as Keras 2 writes slopes
    if (!v.is_number()) throw bad_input("a number is expected in the configuration");
    return v.get<float>();
  }
  float number(std::string_view key, float missing) const {
    const json* v = find(key);
    return v == nullptr ? missing : as_float(*v);
  }
  std::int64_t integer(std::string_view key, std::int64_t missing) const {
    const json* v = find(key);
    if (v == nullptr) return missing;
    if (v->is_array() && v->size() == 1) return json_integer((*v)[0], key);
    return json_integer(*v, key);
  }
  bool flag(std::string_view key, bool missing) const {
    const json* v = find(key);
    if (v == nullptr) return missing;
    if (!v->is_boolean()) throw bad_input("'{}' must be true or false", key);
    return v->get<bool>();
  }
  std::string text(std::string_view key, std::string_view missing) const {
    const json* v = find(key);
    if (v == nullptr) return std::string(missing);
    if (!v->is_string()) throw bad_input("'{}' must be a text", key);
    return v->get<std::string>();
  }
  // One number or one for each spatial axis.
  Ints window(std::string_view key, int axes, std::int64_t missing) const {
    const json* v = find(key);
    if (v == nullptr) return Ints(static_cast<std::size_t>(axes), missing);
    Ints out;
    if (v->is_number()) return Ints(static_cast<std::size_t>(axes), json_integer(*v, key));
    if (!v->is_array()) throw bad_input("'{}' must be a number or a list", key);
    for (const json& d : *v) out.push_back(json_integer(d, key));
    if (out.size() == 1) out.resize(static_cast<std::size_t>(axes), out[0]);
    if (out.size() != static_cast<std::size_t>(axes))
      throw bad_input("'{}' has {} numbers for {} axes", key, out.size(), axes);
    return out;
  }
  bool channels_last() const {
    if (const json* v = find("data_format")) return *v != "channels_first";
    if (const json* v = find("dim_ordering")) return *v != "th";
    return true;
  }
  static int spatial_of(const std::string& type) {
    for (const char c : {'1', '2', '3'})
      if (type.find(std::string(1, c) + "D") != std::string::npos) return c - '0';
    throw UnknownLayer{"layer class " + type};
  }

  // ---- activations ----
  ValueId activation(ValueId v, const json& how) {
    if (how.is_null()) return v;
    if (how.is_object()) {
      const std::string inner = json_string(how, "class_name");
      if (!how.contains("config") || !how["config"].is_object()) return activation_named(v, inner);
      const LayerCall call{inner, name_, how["config"], {v}, {}};
      return Translator(b_, origin_, call).run();
    }
    if (!how.is_string()) throw bad_input("an activation must be a name");
    return activation_named(v, how.get<std::string>());
  }
  ValueId activation_named(ValueId v, const std::string& f) {
    const std::string name = name_ + "." + f;
    if (f == "linear") return v;
    if (f == "softmax") return b_.op("softmax", name, {v}, {{"axis", std::int64_t{-1}}});
    if (f == "log_softmax") return b_.op("log_softmax", name, {v}, {{"axis", std::int64_t{-1}}});
    if (f == "relu6" || f == "ReLU6")
      return b_.elementwise("clip", name, {v}, {{"min", 0.0F}, {"max", 6.0F}});
    if (f == "hard_sigmoid") {
      b_.note(origin_.version >= 3 ? "hard_sigmoid is clip(x/6 + 0.5, 0, 1), as from Keras 3 on."
                                   : "hard_sigmoid is clip(0.2 x + 0.5, 0, 1), as up to Keras 2.");
      return b_.elementwise("hard_sigmoid", name, {v},
                            {{"alpha", origin_.version >= 3 ? 1.0F / 6 : 0.2F}, {"beta", 0.5F}});
    }
    if (f == "exponential") return b_.elementwise("exp", name, {v});
    if (f == "swish" || f == "silu") return b_.elementwise("silu", name, {v});
    if (f == "leaky_relu") return b_.elementwise("leaky_relu", name, {v}, {{"alpha", 0.2F}});
    for (const char* same :
         {"relu", "sigmoid", "tanh", "elu", "selu", "softplus", "softsign", "gelu", "mish"})
      if (f == same) return b_.elementwise(same, name, {v});
    throw UnknownLayer{"activation " + f};
  }
  ValueId finish(ValueId v) {
    const json* how = find("activation");
    return how == nullptr ? v : activation(v, *how);
  }
  ValueId relu_layer() {
    const json* most = find("max_value");
    const float slope = number("negative_slope", 0), threshold = number("threshold", 0);
    if (threshold != 0 || (most != nullptr && slope != 0))
      throw UnknownLayer{"ReLU with a threshold, or with slope and limit"};
    if (most != nullptr)
      return b_.elementwise("clip", name_, {x()}, {{"min", 0.0F}, {"max", as_float(*most)}});
    if (slope != 0) return b_.elementwise("leaky_relu", name_, {x()}, {{"alpha", slope}});
    return b_.elementwise("relu", name_, {x()});
  }

  // ---- matrices ----
  bool has_bias() const { return flag("use_bias", flag("bias", true)); }
  ValueId dense(ValueId v) {
    std::vector<ValueId> inputs{v, weight(0)};
    ValueId y;
    if (b_.rank(v) == 2) {
      if (has_bias()) inputs.push_back(weight(1));
      y = b_.op("gemm", name_, inputs);
    } else {
      y = b_.op("matmul", name_, inputs);
      if (has_bias()) y = b_.op("add", name_ + ".bias", {y, weight(1)});
    }
    return finish(y);
  }

  // ---- windows ----
  // Our kernel [out, in, spatial] of Keras' (spatial, in, out).
  ValueId kernel(std::size_t index, int axes) {
    ValueId w = weight(index);
    if (b_.rank(w) != axes + 2)
      throw bad_input("a kernel {} for {} spatial axes", to_string(b_.type(w)), axes);
    const std::string name = name_ + ".weight";
    if (origin_.version == 1 && !channels_last()) return flipped(w, axes, 2);  // already OIHW
    if (origin_.theano) w = flipped(w, axes, 0);
    Ints perm{axes + 1, axes};
    for (int i = 0; i < axes; ++i) perm.push_back(i);
    b_.note("Kernels are stored (spatial, in, out) and transposed to (out, in, spatial).");
    return b_.transpose(name, w, perm);
  }
  // Reverses `axes` axes from `first` on: Theano convolves, it does not correlate.
  ValueId flipped(ValueId w, int axes, int first) {
    if (!origin_.theano) return w;
    const Tensor* t = b_.constant_of(w);
    if (t == nullptr || t->dtype() != DType::f32) throw UnknownLayer{"a kernel that is not f32"};
    Tensor out = Tensor::uninitialized(DType::f32, t->shape());
    const auto strides = strides_of(t->shape());
    const auto from = t->data<float>();
    auto to = out.mutable_data<float>();
    for (std::int64_t i = 0; i < t->numel(); ++i) {
      std::int64_t j = 0;
      for (int a = 0; a < t->shape().rank(); ++a) {
        const auto k = static_cast<std::size_t>(a);
        std::int64_t at = i / strides[k] % t->shape()[a];
        if (a >= first && a < first + axes) at = t->shape()[a] - 1 - at;
        j += at * strides[k];
      }
      to[static_cast<std::size_t>(j)] = from[static_cast<std::size_t>(i)];
    }
    b_.note("Written on Theano, which convolves: kernels are flipped back to correlate.");
    return b_.constant(name_ + ".flipped", std::move(out));
  }
  void pad(Fields& fields, int axes, const Ints& extent, const Ints& dilation) {
    std::string how = text("padding", text("border_mode", "valid"));
    if (how == "valid") return;
    if (how == "causal") {
      if (axes != 1) throw UnknownLayer{"causal padding of more than one axis"};
      b_.note("causal padding: all of it before the sequence.");
      fields.emplace_back("pads_begin", Ints{dilation[0] * (extent[0] - 1)});
      fields.emplace_back("pads_end", Ints{0});
      return;
    }
    if (how != "same") throw UnknownLayer{"padding " + how};
    if (!origin_.theano && !origin_.cntk) {
      b_.note("padding 'same': what is odd is padded at the end (TensorFlow).");
      fields.emplace_back("auto_pad", std::string("same_upper"));
      return;
    }
    b_.note("padding 'same' on Theano or CNTK: both sides alike, whatever the stride.");
    Ints begin, end;
    for (std::size_t i = 0; i < extent.size(); ++i) {
      const std::int64_t reach = dilation[i] * (extent[i] - 1);
      begin.push_back((reach + 1) / 2);
      end.push_back(reach / 2);
    }
    fields.emplace_back("pads_begin", begin);
    fields.emplace_back("pads_end", end);
  }
  Ints strides(int axes) const {
    if (find("strides") != nullptr) return window("strides", axes, 1);
    if (find("subsample") != nullptr) return window("subsample", axes, 1);
    return Ints(static_cast<std::size_t>(axes), integer("subsample_length", 1));
  }
  ValueId first(ValueId v) { return channels_last() ? b_.channels_first(v) : v; }
  ValueId last(ValueId v) { return channels_last() ? b_.channels_last(v) : v; }

  ValueId conv(int axes) {
    const ValueId w = kernel(0, axes);
    const Shape& s = b_.shape(w);
    const Ints extent(s.dims().begin() + 2, s.dims().end());
    Ints dilation =
        window(find("dilation_rate") != nullptr ? "dilation_rate" : "atrous_rate", axes, 1);
    Fields fields{
        {"strides", strides(axes)}, {"dilations", dilation}, {"groups", integer("groups", 1)}};
    pad(fields, axes, extent, dilation);
    std::vector<ValueId> inputs{first(x()), w};
    if (has_bias()) inputs.push_back(weight(1));
    return finish(last(b_.op("conv", name_, inputs, fields)));
  }
  // (spatial, in, multiplier) is in groups of one channel: output c*multiplier + m.
  ValueId depthwise_kernel(std::size_t index, int axes) {
    const ValueId w = weight(index);
    if (b_.rank(w) != axes + 2) throw bad_input("a kernel {}", to_string(b_.type(w)));
    const Shape s = b_.shape(w);
    Ints perm{axes, axes + 1};
    for (int i = 0; i < axes; ++i) perm.push_back(i);
    Ints shape{s[axes] * s[axes + 1], 1};
    for (int i = 0; i < axes; ++i) shape.push_back(s[i]);
    b_.note("Depthwise kernels (spatial, in, multiplier) are convolutions of one group a channel.");
    return b_.reshape(name_ + ".depthwise", b_.transpose(name_ + ".depthwise_order", w, perm),
                      shape);
  }
  ValueId depthwise_conv(int axes, const std::string& name, std::size_t bias) {
    const ValueId w = depthwise_kernel(0, axes);
    const Shape s = b_.shape(w);
    const Ints extent(s.dims().begin() + 2, s.dims().end());
    const Ints dilation = window("dilation_rate", axes, 1);
    const ValueId v = first(x());
    Fields fields{
        {"strides", strides(axes)}, {"dilations", dilation}, {"groups", b_.shape(v).dim(1)}};
    pad(fields, axes, extent, dilation);
    std::vector<ValueId> inputs{v, w};
    if (bias != 0 && has_bias()) inputs.push_back(weight(bias));
    return b_.op("conv", name, inputs, fields);
  }
  ValueId depthwise(int axes) { return finish(last(depthwise_conv(axes, name_, 1))); }
  ValueId separable(int axes) {
    const ValueId d = depthwise_conv(axes, name_ + ".depthwise", 0);
    std::vector<ValueId> inputs{d, kernel(1, axes)};
    if (has_bias()) inputs.push_back(weight(2));
    return finish(last(b_.op("conv", name_, inputs)));
  }
  ValueId conv_transpose(int axes) {
    const ValueId w = kernel(0, axes);
    const Shape s = b_.shape(w);
    const ValueId v = first(x());
    const Ints stride = strides(axes), dilation = window("dilation_rate", axes, 1);
    const bool same = text("padding", text("border_mode", "valid")) == "same";
    if (find("output_padding") != nullptr) throw UnknownLayer{"output_padding"};
    Fields fields{{"strides", stride}, {"dilations", dilation}};
    Ints begin, end, extra;
    for (int i = 0; i < axes; ++i) {
      const auto a = static_cast<std::size_t>(i);
      const std::int64_t reach = dilation[a] * (s[i + 2] - 1) + 1;
      if (same) {  // out = in * stride: the pads of the convolution that it is the gradient of
        const std::int64_t total = std::max<std::int64_t>(reach - stride[a], 0);
        begin.push_back(total / 2);
        end.push_back(total - total / 2);
        extra.push_back(std::max<std::int64_t>(stride[a] - reach, 0));
      } else {
        begin.push_back(0);
        end.push_back(0);
        extra.push_back(std::max<std::int64_t>(stride[a] - reach, 0));
      }
    }
    fields.emplace_back("pads_begin", begin);
    fields.emplace_back("pads_end", end);
    if (std::ranges::any_of(extra, [](std::int64_t e) { return e != 0; }))
      fields.emplace_back("output_padding", extra);
    std::vector<ValueId> inputs{v, w};
    if (has_bias()) inputs.push_back(weight(1));
    return finish(last(b_.op("conv_transpose", name_, inputs, fields)));
  }

  ValueId pool(const std::string& op, int axes) {
    const bool length = find("pool_length") != nullptr;  // Keras 1
    const Ints extent = window(length ? "pool_length" : "pool_size", axes, 2);
    Ints stride = extent;
    if (find("strides") != nullptr) stride = window("strides", axes, 1);
    if (find("stride") != nullptr) stride = window("stride", axes, 1);
    Fields fields{{"kernel", extent}, {"strides", stride}};
    pad(fields, axes, extent, Ints(static_cast<std::size_t>(axes), 1));
    if (op == "avg_pool")
      b_.note("Average pooling divides by the elements inside the input (TensorFlow).");
    return last(b_.op(op, name_, {first(x())}, fields));
  }
  ValueId global_pool(const std::string& op) {
    const ValueId v = first(x());
    const ValueId y = b_.op(op, name_, {v});
    if (flag("keepdims", false)) return last(y);
    Ints axes;
    for (int i = 2; i < b_.rank(v); ++i) axes.push_back(i);
    return b_.op("squeeze", name_ + ".flat", {y}, {{"axes", axes}});
  }
  ValueId flatten() {
    ValueId v = x();
    if (find("data_format") != nullptr && !channels_last() && b_.rank(v) > 2) {
      b_.note("Flatten with channels_first: channels are moved last before it, as Keras does.");
      v = b_.channels_last(v);
    } else if (b_.rank(v) > 2) {
      b_.note("Flatten follows the layout of the file, row-major.");
    }
    return b_.op("flatten", name_, {v});
  }
  // [[begin, end], ...], [n, n] or n; of spatial axes.
  std::vector<std::pair<std::int64_t, std::int64_t>> margins(std::string_view key, int axes) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> out;
    const json* v = find(key);
    for (int i = 0; i < axes; ++i) {
      if (v == nullptr) {
        out.emplace_back(1, 1);
      } else if (v->is_number()) {
        out.emplace_back(json_integer(*v, key), json_integer(*v, key));
      } else if (axes == 1 && v->is_array() && v->size() == 2) {
        out.emplace_back(json_integer((*v)[0], key), json_integer((*v)[1], key));
      } else if (v->is_array() && v->size() == static_cast<std::size_t>(axes)) {
        const json& d = (*v)[static_cast<std::size_t>(i)];
        if (d.is_array() && d.size() == 2)
          out.emplace_back(json_integer(d[0], key), json_integer(d[1], key));
        else
          out.emplace_back(json_integer(d, key), json_integer(d, key));
      } else {
        throw bad_input("'{}' does not fit {} axes", key, axes);
      }
    }
    return out;
  }
  ValueId zero_padding(int axes) {
    const ValueId v = first(x());
    Ints pads(static_cast<std::size_t>(2 * b_.rank(v)), 0);
    const auto m = margins("padding", axes);
    for (std::size_t i = 0; i < m.size(); ++i) {
      pads[2 + i] = m[i].first;
      pads[static_cast<std::size_t>(b_.rank(v)) + 2 + i] = m[i].second;
    }
    return last(b_.op("pad", name_, {v}, {{"pads", pads}}));
  }
  ValueId cropping(int axes) {
    const ValueId v = first(x());
    Ints starts, ends, which;
    const auto m = margins("cropping", axes);
    for (std::size_t i = 0; i < m.size(); ++i) {
      which.push_back(static_cast<std::int64_t>(i) + 2);
      starts.push_back(m[i].first);
      ends.push_back(m[i].second == 0 ? std::numeric_limits<std::int64_t>::max() : -m[i].second);
    }
    return last(b_.op("slice", name_, {v}, {{"starts", starts}, {"ends", ends}, {"axes", which}}));
  }
  ValueId up_sampling(int axes) {
    const Ints size = window(find("size") != nullptr ? "size" : "length", axes, 2);
    const std::string how = text("interpolation", "nearest");
    if (how != "nearest" && how != "bilinear") throw UnknownLayer{"interpolation " + how};
    std::vector<float> scales{1, 1};
    for (const std::int64_t n : size) scales.push_back(static_cast<float>(n));
    Fields fields{{"scales", scales}};
    if (how == "nearest") {
      fields.emplace_back("mode", std::string("nearest"));
      fields.emplace_back("coordinate_transformation_mode", std::string("asymmetric"));
      fields.emplace_back("nearest_mode", std::string("floor"));
    } else {
      fields.emplace_back("mode", std::string("linear"));
      b_.note("Bilinear upsampling takes half-pixel centres (TensorFlow 2).");
    }
    return last(b_.op("resize", name_, {first(x())}, fields));
  }

  // ---- normalisation ----
  ValueId filled(const std::string& part, std::int64_t count, float value) {
    Tensor t = Tensor::uninitialized(DType::f32, {count});
    for (float& f : t.mutable_data<float>()) f = value;
    return b_.constant(name_ + "." + part, std::move(t));
  }
  ValueId batch_norm() {
    ValueId v = x();
    std::int64_t axis = integer("axis", -1);
    const int rank = b_.rank(v);
    if (axis < 0) axis += rank;
    const bool at_end = axis == rank - 1 && rank > 2;
    if (!at_end && axis != 1)
      throw UnknownLayer{"BatchNormalization of axis " + std::to_string(axis)};
    if (integer("mode", 0) != 0) throw UnknownLayer{"BatchNormalization of mode 1 or 2"};
    const float eps = number("epsilon", 1e-3F);
    b_.note(fmt::format("BatchNormalization: epsilon {}, statistics of the training.", eps));
    std::size_t next = 0;
    const bool scale = flag("scale", true), center = flag("center", true);
    const std::int64_t channels = b_.shape(v)[static_cast<int>(axis)];
    const ValueId gamma = scale ? weight(next++) : filled("gamma", channels, 1);
    const ValueId beta = center ? weight(next++) : filled("beta", channels, 0);
    const ValueId mean = weight(next++), variance = weight(next++);
    if (at_end) v = b_.channels_first(v);
    const ValueId y = b_.op("batch_norm", name_, {v, gamma, beta, mean, variance}, {{"eps", eps}});
    return at_end ? b_.channels_last(y) : y;
  }
  ValueId layer_norm() {
    const std::int64_t axis = integer("axis", -1);
    const int rank = b_.rank(x());
    if (axis != -1 && axis != rank - 1)
      throw UnknownLayer{"LayerNormalization not of the last axis"};
    std::size_t next = 0;
    const std::int64_t channels = b_.shape(x())[rank - 1];
    const bool scale = flag("scale", true), center = flag("center", true);
    const ValueId gamma = scale ? weight(next++) : filled("gamma", channels, 1);
    const ValueId beta = center ? weight(next++) : filled("beta", channels, 0);
    return b_.op("layer_norm", name_, {x(), gamma, beta},
                 {{"axis", std::int64_t{-1}}, {"eps", number("epsilon", 1e-3F)}});
  }

  // ---- several inputs ----
  ValueId merge(const std::string& op) { return b_.elementwise(op, name_, c_.inputs); }
  ValueId chain(const std::string& op) {
    ValueId v = x();
    for (std::size_t i = 1; i < c_.inputs.size(); ++i)
      v = b_.elementwise(op, name_, {v, c_.inputs[i]});
    return v;
  }
  // ---- sequences ----
  std::string recurrent_function(const json& config_of, std::string_view key,
                                 std::string_view missing, std::vector<float>& alpha,
                                 std::vector<float>& beta) {
    const auto at = config_of.find(std::string(key));
    const std::string f =
        at == config_of.end() || !at->is_string() ? std::string(missing) : at->get<std::string>();
    if (f == "hard_sigmoid") {
      alpha.push_back(origin_.version >= 3 ? 1.0F / 6 : 0.2F);
      beta.push_back(0.5F);
      b_.note(origin_.version >= 3 ? "hard_sigmoid is clip(x/6 + 0.5, 0, 1), as from Keras 3 on."
                                   : "hard_sigmoid is clip(0.2 x + 0.5, 0, 1), as up to Keras 2.");
      return "hardsigmoid";
    }
    if (f == "tanh" || f == "sigmoid" || f == "relu") return f;
    if (f == "linear") return "identity";
    throw UnknownLayer{"recurrent activation " + f};
  }
  ValueId recurrent(const std::string& type, const json& cfg, std::size_t first_weight,
                    bool reverse) {
    const auto flag_of = [&](const char* key, bool missing) {
      const auto at = cfg.find(key);
      return at == cfg.end() || !at->is_boolean() ? missing : at->get<bool>();
    };
    if (flag_of("stateful", false)) b_.note("A stateful layer starts from zero in every run.");
    const bool bias = flag_of("use_bias", true);
    const bool lstm = type == "LSTM", gru = type == "GRU";
    const std::int64_t gates = lstm ? 4 : gru ? 3 : 1;
    if (origin_.version == 1) throw UnknownLayer{"recurrent layers of Keras 1"};
    ValueId w = weight(first_weight), r = weight(first_weight + 1);
    const std::int64_t h = b_.shape(r).dim(0);
    const auto matrix = [&](ValueId m, const char* part) {
      m = b_.transpose(name_ + "." + part + "_order", m, {1, 0});
      const Shape s = b_.shape(m);
      return b_.reshape(name_ + "." + part + (reverse ? "_back" : ""), m, {1, s[0], s[1]});
    };
    const bool after = gru && flag_of("reset_after", false);
    std::vector<ValueId> inputs{x(), matrix(w, "w"), matrix(r, "r")};
    if (bias) {
      ValueId bv = weight(first_weight + 2);
      const Tensor* t = b_.constant_of(bv);
      if (t == nullptr || t->dtype() != DType::f32)
        throw UnknownLayer{"a recurrent bias that is not f32"};
      const std::int64_t want = (t->shape().rank() == 2 ? 2 : 1) * gates * h;
      if (t->numel() != want)
        throw bad_input("a recurrent bias {} for {} units", to_string(t->type()), h);
      Tensor both = Tensor::zeros(DType::f32, {1, 2 * gates * h});
      std::ranges::copy(t->data<float>(), both.mutable_data<float>().begin());
      inputs.push_back(b_.constant(name_ + ".b", std::move(both)));
    }
    std::vector<float> alpha, beta;
    std::vector<std::string> functions;
    const char* gate_missing = origin_.version >= 3 ? "sigmoid" : "hard_sigmoid";
    if (lstm || gru)
      functions.push_back(
          recurrent_function(cfg, "recurrent_activation", gate_missing, alpha, beta));
    functions.push_back(recurrent_function(cfg, "activation", "tanh", alpha, beta));
    if (lstm) {
      functions.push_back(recurrent_function(cfg, "activation", "tanh", alpha, beta));
    }
    const bool backwards = flag_of("go_backwards", false) != reverse;
    Fields fields{{"activations", functions},
                  {"batch_first", true},
                  {"direction", std::string(backwards ? "reverse" : "forward")}};
    if (!alpha.empty()) {
      fields.emplace_back("activation_alpha", alpha);
      fields.emplace_back("activation_beta", beta);
    }
    if (lstm) {
      fields.emplace_back("gates", std::string("ifco"));
      b_.note("LSTM gates stand in the order i, f, c, o.");
    }
    if (gru) {
      fields.emplace_back("gates", std::string("zrh"));
      fields.emplace_back("linear_before_reset", after);
      b_.note(after ? "GRU gates stand in the order z, r, h; reset after the recurrent product."
                    : "GRU gates stand in the order z, r, h; reset before the recurrent product.");
    }
    const std::string op = lstm ? "lstm" : gru ? "gru" : "rnn";
    const std::string label = reverse ? name_ + ".back" : name_;
    const std::vector<ValueId> y = b_.nodes(op, label, inputs, make_params(get_op(op), fields), 2);
    const bool sequences = flag_of("return_sequences", false);
    if (flag_of("return_state", false)) throw UnknownLayer{"return_state"};
    if (!sequences) return b_.op("squeeze", label + ".last", {y[1]}, {{"axes", Ints{1}}});
    const ValueId seq = b_.op("squeeze", label + ".sequence", {y[0]}, {{"axes", Ints{2}}});
    // Keras gives a layer that goes backwards its outputs in the order in which it made them;
    // Bidirectional turns them round again.
    if (backwards && !reverse)
      return b_.op("slice", label + ".order", {seq},
                   {{"starts", Ints{-1}},
                    {"ends", Ints{std::numeric_limits<std::int64_t>::min() + 1}},
                    {"axes", Ints{1}},
                    {"steps", Ints{-1}}});
    return seq;
  }
  ValueId bidirectional() {
    const json& layer = config("layer");
    const std::string type = json_string(layer, "class_name");
    const json& cfg = json_member(layer, "config");
    if (c_.weights.size() % 2 != 0) throw bad_input("an odd number of weights for two directions");
    const ValueId there = recurrent(type, cfg, 0, false);
    const ValueId back = recurrent(type, cfg, c_.weights.size() / 2, true);
    const std::string how = text("merge_mode", "concat");
    if (how == "concat") return b_.op("concat", name_, {there, back}, {{"axis", std::int64_t{-1}}});
    if (how == "sum") return b_.op("add", name_, {there, back});
    if (how == "mul") return b_.op("mul", name_, {there, back});
    if (how == "ave") return b_.op("mean", name_, {there, back});
    throw UnknownLayer{"merge_mode " + how};
  }
  ValueId time_distributed() {
    const json& layer = config("layer");
    const std::string type = json_string(layer, "class_name");
    if (type != "Dense" && type != "Activation" && !is_identity(type))
      throw UnknownLayer{"TimeDistributed " + type};
    const LayerCall call{type, name_, json_member(layer, "config"), c_.inputs, c_.weights};
    return Translator(b_, origin_, call).run();
  }

  GraphBuilder& b_;
  const Origin& origin_;
  const LayerCall& c_;
  const std::string& name_;
};

}  // namespace

bool is_identity(std::string_view type) {
  for (const std::string_view t :
       {"InputLayer", "Dropout", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
        "AlphaDropout", "GaussianNoise", "GaussianDropout", "ActivityRegularization"})
    if (type == t) return true;
  return false;
}

ValueId translate(GraphBuilder& builder, const Origin& origin, const LayerCall& call) {
  return Translator(builder, origin, call).run();
}

}  // namespace etalon::keras_format
