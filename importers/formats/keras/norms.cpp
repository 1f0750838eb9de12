// Norms by group and by length, and layers that multiply along axes: the layers that layers.cpp
// does not name.
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/einsum.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {

ValueId Translator::group_norm() {
  const int rank = b_.rank(x());
  const std::int64_t axis = integer("axis", -1);
  if ((axis != -1 && axis != rank - 1) || rank < 3)
    throw UnknownLayer{"GroupNormalization not of the last axis"};
  const ValueId v = b_.channels_first(x());
  const std::int64_t channels = b_.shape(v)[1];
  std::int64_t groups = integer("groups", 32);
  if (groups == -1) groups = channels;
  std::size_t next = 0;
  const ValueId gamma = flag("scale", true) ? weight(next++) : filled("gamma", channels, 1);
  const ValueId beta = flag("center", true) ? weight(next++) : filled("beta", channels, 0);
  return b_.channels_last(b_.op("group_norm", name_, {v, gamma, beta},
                                {{"groups", groups}, {"eps", number("epsilon", 1e-3F)}}));
}

// Of matrices: along one axis of each; of vectors a sum of products.
ValueId Translator::product_along(ValueId a, ValueId b, const json& how, bool unit) {
  Ints axes;
  if (how.is_array())
    for (const json& axis : how) axes.push_back(json_integer(axis, "an axis"));
  else
    axes = Ints(2, json_integer(how, "an axis"));
  const int rank = b_.rank(a);
  if (axes.size() != 2 || rank != b_.rank(b) || rank > 3 || rank < 2)
    throw UnknownLayer{"Dot of other than vectors or matrices"};
  for (std::int64_t& axis : axes) axis = normalize_axis(axis, rank);
  if (unit) {
    const auto scaled = [&](ValueId v, std::int64_t axis) {
      return b_.op(
          "lp_norm", name_ + ".unit", {v},
          {{"p", 2.0F}, {"axes", Ints{axis}}, {"eps", 1e-12F}, {"eps_in", std::string("sum_max")}});
    };
    a = scaled(a, axes[0]);
    b = scaled(b, axes[1]);
  }
  if (axes[0] == 0 || axes[1] == 0) throw UnknownLayer{"Dot over the batch"};
  if (rank == 2)
    return b_.op("reduce_sum", name_, {b_.op("mul", name_ + ".products", {a, b})},
                 {{"axes", Ints{1}}, {"keepdims", true}});
  if (axes[0] == 1) a = b_.transpose(name_ + ".left", a, {0, 2, 1});
  if (axes[1] == 2) b = b_.transpose(name_ + ".right", b, {0, 2, 1});
  return b_.op("matmul", name_, {a, b});
}

// Statistics of the last axis, from the configuration or from weights.
ValueId Translator::normalization() {
  const std::int64_t axis = integer("axis", -1);
  if (find("axis") == nullptr || (axis != -1 && axis != b_.rank(x()) - 1))
    throw UnknownLayer{"Normalization of other than the last axis"};
  if (flag("invert", false)) throw UnknownLayer{"Normalization inverted"};
  const bool listed = find("mean") != nullptr && find("variance") != nullptr;
  if (!listed && c_.weights.size() < 2) throw UnknownLayer{"Normalization without its statistics"};
  const auto statistic = [&](const char* key, std::size_t i) {
    if (!listed) return weight(i);
    const json& v = config(key);
    Tensor t = Tensor::uninitialized(
        DType::f32, {v.is_array() ? static_cast<std::int64_t>(v.size()) : std::int64_t{1}});
    const auto to = t.mutable_data<float>();
    for (std::size_t k = 0; k < to.size(); ++k) to[k] = as_float(v.is_array() ? v[k] : v);
    return b_.constant(name_ + "." + key, std::move(t));
  };
  const ValueId least = b_.constant(name_ + ".least", scalar_of(DType::f32, 1e-7F));
  const ValueId mean = statistic("mean", 0), variance = statistic("variance", 1);
  const ValueId width =
      b_.op("max", name_ + ".width", {b_.op("sqrt", name_ + ".root", {variance}), least});
  return b_.op("div", name_, {b_.op("sub", name_ + ".centred", {x(), mean}), width});
}

// Over the last axes from the first of `axis` on, epsilon inside the root.
ValueId Translator::rms_norm() {
  const int rank = b_.rank(x());
  Ints axes;
  const json& how = config("axis");
  if (how.is_array())
    for (const json& a : how) axes.push_back(normalize_axis(json_integer(a, "an axis"), rank));
  else
    axes.push_back(normalize_axis(json_integer(how, "an axis"), rank));
  if (axes.empty() || axes[0] != rank - static_cast<std::int64_t>(axes.size()))
    throw UnknownLayer{"RMSNormalization of other than the last axes"};
  return b_.op("rms_norm", name_, {x(), weight(0)},
               {{"axis", axes[0] - rank}, {"eps", number("epsilon", 1e-6F)}});
}

// Its kernel was divided by its norm while it was trained; here it is what stands in the file.
ValueId Translator::spectral_norm() {
  const json& layer = config("layer");
  // The weights of the layer inside come first, then the vector of the norm.
  std::vector<ValueId> own = c_.weights;
  if (own.size() > 1) own.pop_back();
  const LayerCall call{json_string(layer, "class_name"), name_, json_member(layer, "config"),
                       c_.inputs, own};
  b_.note("SpectralNormalization: the kernel is taken as the training left it.");
  return Translator(b_, origin_, call).run();
}

ValueId Translator::einsum_dense() {
  std::string equation = text("equation", "");
  const ValueId w = weight(0);
  ValueId y = kAbsent;
  // "..." stands for the same axes on both sides: letters that the equation does not use.
  const std::size_t dots = equation.find("...");
  if (dots != std::string::npos) {
    const std::size_t comma = equation.find(',');
    if (comma == std::string::npos || dots > comma) throw bad_input("equation '{}'", equation);
    const auto missing = b_.rank(x()) - static_cast<int>(comma - 3);
    std::string letters;
    for (char c = 'A'; c <= 'Z' && static_cast<int>(letters.size()) < missing; ++c)
      if (equation.find(c) == std::string::npos) letters += c;
    for (std::size_t at = equation.find("..."); at != std::string::npos; at = equation.find("..."))
      equation.replace(at, 3, letters);
  }
  if (const auto made = einsum_of_two(b_, name_, equation, x(), w)) y = *made;
  if (y == kAbsent) throw UnknownLayer{"EinsumDense of the equation " + printable(equation)};
  if (const json* axes = find("bias_axes")) {
    // The bias stands with its axes in the order of the output; missing ones behind it are 1.
    const std::string out = equation.substr(equation.find("->") + 2);
    const std::string of = axes->is_string() ? axes->get<std::string>() : "";
    Ints shape;
    const Shape s = b_.shape(weight(1));
    int next = 0;
    for (const char c : out) {
      const bool has = of.find(c) != std::string::npos;
      if (has && next >= s.rank()) throw bad_input("a bias {} of axes {}", to_string(s), of);
      if (has || !shape.empty()) shape.push_back(has ? s[next++] : 1);
    }
    y = b_.op("add", name_ + ".bias", {y, b_.reshape(name_ + ".bias_axes", weight(1), shape)});
  }
  return finish(y);
}

std::optional<ValueId> Translator::later() {
  const std::string& t = c_.type;
  if (t == "MultiHeadAttention" || t == "GroupQueryAttention") return multi_head_attention();
  if (t == "Attention" || t == "AdditiveAttention") return dot_attention();
  if (t == "RMSNormalization") return rms_norm();
  if (t == "SpectralNormalization") return spectral_norm();
  if (t == "EinsumDense") return einsum_dense();
  if (t == "ConvLSTM1D") return conv_lstm(1);
  if (t == "ConvLSTM2D") return conv_lstm(2);
  if (t == "ConvLSTM3D") return conv_lstm(3);
  if (t == "Resizing") return resizing();
  if (t == "CenterCrop") return center_crop();
  if (t == "CategoryEncoding") return category_encoding();
  if (t == "Discretization") return discretization();
  if (t == "Masking") {  // a step of nothing but the value counts for nothing, and becomes zeros
    const ValueId value =
        b_.constant(name_ + ".value", scalar_of(DType::f32, number("mask_value", 0)));
    const ValueId here =
        b_.op("not", name_ + ".here", {b_.op("equal", name_ + ".equal", {x(), value})});
    const ValueId any =
        b_.op("reduce_max", name_ + ".any", {here}, {{"axes", Ints{-1}}, {"keepdims", true}});
    return b_.op("mul", name_,
                 {x(), b_.op("cast", name_ + ".ones", {any}, {{"to", std::string("f32")}})});
  }
  if (t == "GroupNormalization") return group_norm();
  if (t == "Dot" && c_.inputs.size() == 2)
    return product_along(x(), c_.inputs[1], config("axes"), flag("normalize", false));
  if (t == "UnitNormalization") {
    if (integer("axis", -1) != -1) throw UnknownLayer{"UnitNormalization of other axes"};
    return b_.op(
        "lp_norm", name_, {x()},
        {{"p", 2.0F}, {"axes", Ints{-1}}, {"eps", 1e-12F}, {"eps_in", std::string("sum_max")}});
  }
  if (t == "Normalization") return normalization();
  return std::nullopt;
}

// Above `max_value` that, up to and with `threshold` slope * (x - threshold), else x.
ValueId Translator::relu_layer() {
  const json* most = find("max_value");
  const float slope = number("negative_slope", 0), threshold = number("threshold", 0);
  if (most != nullptr && slope == 0 && threshold == 0)
    return b_.elementwise("clip", name_, {x()}, {{"min", 0.0F}, {"max", as_float(*most)}});
  ValueId y = kAbsent;
  if (threshold == 0) {
    y = slope == 0 ? b_.elementwise("relu", name_, {x()})
                   : b_.elementwise("leaky_relu", name_, {x()}, {{"alpha", slope}});
  } else {
    const ValueId t = b_.constant(name_ + ".threshold", scalar_of(DType::f32, threshold));
    const ValueId below =
        b_.elementwise("mul", name_ + ".below",
                       {b_.elementwise("sub", name_ + ".under", {x(), t}),
                        b_.constant(name_ + ".slope", scalar_of(DType::f32, slope))});
    y = b_.elementwise("where", name_,
                       {b_.elementwise("greater", name_ + ".passes", {x(), t}), x(), below});
  }
  if (most == nullptr) return y;
  return b_.elementwise(
      "min", name_ + ".limit",
      {y, b_.constant(name_ + ".max_value", scalar_of(DType::f32, as_float(*most)))});
}

}  // namespace etalon::keras_format
