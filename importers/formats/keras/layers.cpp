#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/tensorflow_calls.h"
#include "importers/formats/keras/translator.h"

namespace etalon::keras_format {

ValueId Translator::run() {
  const std::string& t = c_.type;
  if (c_.inputs.size() > 1 && !takes_many(t) && !c_.operation)
    throw UnknownLayer{fmt::format("the second input of '{}', {}", name_, t)};
  if (c_.operation) return operation();
  if (is_identity(t)) return x();
  if (t == "Dense" || t == "TimeDistributedDense") return dense(x());
  if (t == "Activation") return activation(x(), config("activation"));
  if (t == "ReLU") return relu_layer();
  if (t == "LeakyReLU") {
    const json* slope = find("negative_slope") != nullptr ? find("negative_slope") : find("alpha");
    return b_.elementwise("leaky_relu", name_, {x()},
                          {{"alpha", slope == nullptr ? 0.3F : as_float(*slope)}});
  }
  if (t == "ELU") return b_.elementwise("elu", name_, {x()}, {{"alpha", number("alpha", 1)}});
  if (t == "ThresholdedReLU")
    return b_.elementwise("thresholded_relu", name_, {x()}, {{"alpha", number("theta", 1)}});
  if (t == "PReLU") return b_.op("prelu", name_, {x(), weight(0)});
  if (t == "Softmax") return b_.op("softmax", name_, {x()}, {{"axis", integer("axis", -1)}});
  if (t == "Conv1D" || t == "Convolution1D" || t == "AtrousConvolution1D") return conv(1);
  if (t == "Conv2D" || t == "Convolution2D" || t == "AtrousConvolution2D") return conv(2);
  if (t == "Conv3D" || t == "Convolution3D") return conv(3);
  if (t == "DepthwiseConv2D") return depthwise(2);
  if (t == "DepthwiseConv1D") return depthwise(1);
  if (origin_.version == 1 && t.starts_with("Separable") && !channels_last())
    throw UnknownLayer{t + " of Keras 1 and channels first"};
  if (origin_.version == 1 && t == "Deconvolution2D") return deconvolution();
  if (t == "SeparableConv2D" || t == "SeparableConvolution2D") return separable(2);
  if (t == "SeparableConv1D") return separable(1);
  if (t == "Conv2DTranspose" || t == "Deconvolution2D") return conv_transpose(2);
  if (t == "Conv1DTranspose") return conv_transpose(1);
  if (t == "Conv3DTranspose") return conv_transpose(3);
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
  if (t == "Rescaling") return rescaling();
  // Classes of keras.applications' own networks (ConvNeXt, Inception-ResNet).
  if (t == "LayerScale") return b_.elementwise("mul", name_, {x(), weight(0)});
  if (t == "StochasticDepth") return x();
  if (t == "CustomScaleLayer") {
    if (c_.inputs.size() != 2)
      throw bad_input("a CustomScaleLayer of {} inputs; of two it scales the second",
                      c_.inputs.size());
    const ValueId by = b_.constant(name_ + ".by", Tensor::of<float>({}, {number("scale", 1)}));
    return b_.elementwise(
        "add", name_, {c_.inputs[0], b_.elementwise("mul", name_ + ".scaled", {c_.inputs[1], by})});
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
    if (mode == "dot" && c_.inputs.size() == 2)
      return product_along(x(), c_.inputs[1], config("dot_axes"), false);
    if (mode == "cos" && c_.inputs.size() == 2) return cosine();
    throw UnknownLayer{"Merge of mode " + mode};
  }
  if (t == "SReLU") return s_relu();
  if (t == "ParametricSoftplus") return parametric_softplus();
  if (t == "Highway") return highway();
  if (t == "MaxoutDense") return maxout();
  if (t == "LocallyConnected1D") return locally_connected(1);
  if (t == "LocallyConnected2D") return locally_connected(2);
  if (t == "Embedding") {
    b_.note("An embedding's indices are taken as whole numbers, whatever type they come in.");
    ValueId i = x();
    if (is_floating(b_.dtype(i)))
      i = b_.op("cast", name_ + ".indices", {i}, {{"to", std::string("i64")}});
    return b_.op("gather", name_, {weight(0), i}, {{"axis", std::int64_t{0}}});
  }
  if (t == "LSTM" || t == "GRU" || t == "SimpleRNN" || t == "RNN" || t == "CuDNNLSTM" ||
      t == "CuDNNGRU")
    return recurrent_layer();
  if (t == "Bidirectional") return bidirectional();
  if (t == "TimeDistributed") return time_distributed();
  if (is_function(t)) return tensorflow_function();
  if (t == "TensorFlowOpLayer") return tensorflow_node();
  if (const auto y = later()) return *y;
  throw UnknownLayer{"layer class " + t};
}

// ---- normalisation ----
ValueId Translator::filled(const std::string& part, std::int64_t count, float value) {
  Tensor t = Tensor::uninitialized(DType::f32, {count});
  for (float& f : t.mutable_data<float>()) f = value;
  return b_.constant(name_ + "." + part, std::move(t));
}

ValueId Translator::batch_norm() {
  ValueId v = x();
  std::int64_t axis = integer("axis", -1);
  const int rank = b_.rank(v);
  if (axis < 0) axis += rank;
  const bool at_end = axis == rank - 1 && rank > 2;
  if (axis < 1 || axis >= rank)
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
  Ints swap;  // that axis with axis 1
  for (int i = 0; i < rank; ++i) swap.push_back(i == 1 ? axis : i == axis ? 1 : i);
  if (at_end)
    v = b_.channels_first(v);
  else
    v = b_.transpose(name_ + ".axis", v, swap);
  const ValueId y = b_.op("batch_norm", name_, {v, gamma, beta, mean, variance}, {{"eps", eps}});
  return at_end ? b_.channels_last(y) : b_.transpose(name_ + ".back", y, swap);
}

// Over some axes, which are moved to the end where they are not there.
ValueId Translator::layer_norm() {
  if (flag("rms_scaling", false)) throw UnknownLayer{"LayerNormalization with rms_scaling"};
  const int rank = b_.rank(x());
  Ints axes, perm, back(static_cast<std::size_t>(rank), 0);
  if (const json* how = find("axis"); how != nullptr && how->is_array())
    for (const json& a : *how) axes.push_back(normalize_axis(json_integer(a, "an axis"), rank));
  else
    axes.push_back(normalize_axis(integer("axis", -1), rank));
  std::ranges::sort(axes);
  Ints extents;
  for (const std::int64_t a : axes) extents.push_back(b_.shape(x())[static_cast<int>(a)]);
  for (int i = 0; i < rank; ++i)
    if (std::ranges::find(axes, i) == axes.end()) perm.push_back(i);
  perm.insert(perm.end(), axes.begin(), axes.end());
  if (perm.size() != back.size() || axes.empty()) throw bad_input("axes of which two are one");
  for (std::size_t i = 0; i < perm.size(); ++i)
    back[static_cast<std::size_t>(perm[i])] = static_cast<std::int64_t>(i);
  const auto statistic = [&](const char* part, bool given, std::size_t& next, float otherwise) {
    if (given) return weight(next++);
    return b_.reshape(name_ + "." + part, filled(part, Shape(extents).numel(), otherwise), extents);
  };
  std::size_t next = 0;
  const ValueId gamma = statistic("gamma", flag("scale", true), next, 1);
  const ValueId beta = statistic("beta", flag("center", true), next, 0);
  const ValueId y =
      b_.op("layer_norm", name_, {b_.transpose(name_ + ".axes", x(), perm), gamma, beta},
            {{"axis", -static_cast<std::int64_t>(axes.size())}, {"eps", number("epsilon", 1e-3F)}});
  return b_.transpose(name_ + ".back", y, back);
}

// The operands of a merging layer: one with fewer axes gets axes of 1 behind the batch, where
// NumPy puts them in front.
std::vector<ValueId> Translator::aligned() {
  std::vector<ValueId> out = c_.inputs;
  int most = 0;
  for (const ValueId v : out) most = std::max(most, b_.rank(v));
  for (ValueId& v : out) {
    const int rank = b_.rank(v);
    if (rank == most || rank == 0) continue;
    Ints axes;
    for (int i = 1; i <= most - rank; ++i) axes.push_back(i);
    v = b_.op("unsqueeze", name_ + ".aligned", {v}, {{"axes", axes}});
    b_.note("A merging layer puts missing axes behind the batch.");
  }
  return out;
}

ValueId Translator::chain(const std::string& op) {
  const std::vector<ValueId> in = aligned();
  ValueId v = in.at(0);
  for (std::size_t i = 1; i < in.size(); ++i) v = b_.elementwise(op, name_, {v, in[i]});
  return v;
}

bool takes_many(std::string_view type) {
  for (const std::string_view t :
       {"Add", "Average", "Maximum", "Minimum", "Multiply", "Subtract", "Concatenate",
        "CustomScaleLayer", "Merge", "Dot", "MultiHeadAttention", "GroupQueryAttention",
        "Attention", "AdditiveAttention", "TFOpLambda", "SlicingOpLambda", "TensorFlowOpLayer"})
    if (type == t) return true;
  return false;
}

bool is_identity(std::string_view type) {
  for (const std::string_view t :
       {"InputLayer", "Identity", "Dropout", "SpatialDropout1D", "SpatialDropout2D",
        "SpatialDropout3D", "AlphaDropout", "GaussianNoise", "GaussianDropout",
        "ActivityRegularization", "RandomFlip", "RandomRotation", "RandomZoom", "RandomTranslation",
        "RandomContrast", "RandomBrightness"})
    if (type == t) return true;
  return false;
}

std::vector<ValueId> translate(GraphBuilder& builder, const Origin& origin, const LayerCall& call) {
  Translator layer(builder, origin, call);
  std::vector<ValueId> all{layer.run()};
  const std::vector<ValueId> states = layer.take_states();
  all.insert(all.end(), states.begin(), states.end());
  return all;
}

}  // namespace etalon::keras_format
