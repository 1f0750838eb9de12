// Layers of later Keras: attention, norms by group and by length, products along axes.
//
// MultiHeadAttention is written as its definition: projections (in, heads, width), softmax(q k' /
// sqrt(width)) v by head, and the projection back; each step rounds. Inputs are query, value and,
// where given, key. Masks are refused where the file asks for them (masks.h).
#include <cmath>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"
#include "importers/formats/translate.h"

namespace etalon::keras_format {

ValueId Translator::attention() {
  const std::int64_t heads = integer("num_heads", 1), width = integer("key_dim", 1);
  if (c_.inputs.size() < 2) throw UnknownLayer{"MultiHeadAttention whose value is not listed"};
  const json* axes = find("attention_axes");
  if (axes != nullptr && *axes != json::array({1}))
    throw UnknownLayer{"MultiHeadAttention along axes of its own"};
  if (flag("use_gate", false) || find("sliding_window") != nullptr)
    throw UnknownLayer{"MultiHeadAttention with a gate or a window"};
  const bool bias = flag("use_bias", true);
  const ValueId inputs[] = {x(), c_.inputs.size() > 2 ? c_.inputs[2] : c_.inputs[1], c_.inputs[1]};
  for (const ValueId v : inputs)
    if (b_.rank(v) != 3) throw UnknownLayer{"MultiHeadAttention of other than sequences"};
  constexpr const char* kRoles[] = {"query", "key", "value"};
  std::size_t next = 0;
  ValueId parts[3];
  for (std::size_t i = 0; i < 3; ++i) {
    const std::string role = name_ + "." + kRoles[i];
    const ValueId w = weight(next++);
    const Shape s = b_.shape(w);
    if (s.rank() != 3 || s[1] != heads) throw bad_input("{}: weights of {}", role, to_string(s));
    ValueId y =
        b_.op("matmul", role, {inputs[i], b_.reshape(role + ".kernel", w, {s[0], s[1] * s[2]})});
    if (bias)
      y = b_.op("add", role + ".sum",
                {y, b_.reshape(role + ".bias", weight(next++), {s[1] * s[2]})});
    y = b_.reshape(role + ".heads", y, {0, 0, heads, s[2]});
    parts[i] = b_.transpose(role + ".turned", y, {0, 2, i == 1 ? 3 : 1, i == 1 ? 1 : 3});
  }
  b_.note("MultiHeadAttention is written as its definition, each step rounds; no mask.");
  const ValueId scale = b_.constant(
      name_ + ".scale",
      scalar_of(DType::f32, static_cast<float>(1 / std::sqrt(static_cast<double>(width)))));
  const ValueId q = b_.op("mul", name_ + ".scaled", {parts[0], scale});
  const ValueId scores =
      b_.op("softmax", name_ + ".weights", {b_.op("matmul", name_ + ".scores", {q, parts[1]})},
            {{"axis", std::int64_t{-1}}});
  ValueId y = b_.transpose(name_ + ".rows", b_.op("matmul", name_ + ".mixed", {scores, parts[2]}),
                           {0, 2, 1, 3});
  const ValueId w = weight(next++);
  const Shape s = b_.shape(w);
  if (s.rank() != 3 || s[0] != heads) throw bad_input("output weights of {}", to_string(s));
  y = b_.reshape(name_ + ".joined", y, {0, 0, s[0] * s[1]});
  y = b_.op("matmul", name_, {y, b_.reshape(name_ + ".kernel", w, {s[0] * s[1], s[2]})});
  return bias ? b_.op("add", name_ + ".sum", {y, weight(next)}) : y;
}

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
ValueId Translator::dot() {
  if (flag("normalize", false)) throw UnknownLayer{"Dot of normalised vectors"};
  if (c_.inputs.size() != 2) throw bad_input("{} operands", c_.inputs.size());
  Ints axes;
  const json& how = config("axes");
  if (how.is_array())
    for (const json& a : how) axes.push_back(json_integer(a, "an axis"));
  else
    axes = Ints(2, json_integer(how, "an axis"));
  ValueId a = c_.inputs[0], b = c_.inputs[1];
  const int rank = b_.rank(a);
  if (axes.size() != 2 || rank != b_.rank(b) || rank > 3 || rank < 2)
    throw UnknownLayer{"Dot of other than vectors or matrices"};
  for (std::int64_t& axis : axes) axis = normalize_axis(axis, rank);
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

std::optional<ValueId> Translator::later() {
  const std::string& t = c_.type;
  if (t == "MultiHeadAttention") return attention();
  if (t == "GroupNormalization") return group_norm();
  if (t == "Dot") return dot();
  if (t == "UnitNormalization") {
    if (integer("axis", -1) != -1) throw UnknownLayer{"UnitNormalization of other axes"};
    return b_.op(
        "lp_norm", name_, {x()},
        {{"p", 2.0F}, {"axes", Ints{-1}}, {"eps", 1e-12F}, {"eps_in", std::string("sum_max")}});
  }
  if (t == "Normalization") return normalization();
  // What Keras 3 makes masks of.
  if (t == "NotEqual") return b_.op("not", name_, {b_.op("equal", name_ + ".equal", c_.inputs)});
  if (t == "LogicalOr") return b_.op("or", name_, c_.inputs);
  if (t == "LogicalAnd") return b_.op("and", name_, c_.inputs);
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
