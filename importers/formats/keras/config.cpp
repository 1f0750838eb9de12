#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/translator.h"
#include "importers/formats/scalar.h"

namespace etalon::keras_format {

DType tensor_type(const std::string& text) {
  constexpr std::pair<std::string_view, DType> kTypes[] = {
      {"float32", DType::f32},  {"float64", DType::f64},   {"float16", DType::f16},
      {"bool", DType::boolean}, {"bfloat16", DType::bf16}, {"int8", DType::i8},
      {"int16", DType::i16},    {"int32", DType::i32},     {"int64", DType::i64},
      {"uint8", DType::u8},     {"uint16", DType::u16}};
  for (const auto& [theirs, ours] : kTypes)
    if (text == theirs) return ours;
  if (text.starts_with("mixed_")) return DType::f32;
  throw UnknownLayer{"a tensor of type " + printable(text)};
}

float Translator::as_float(const json& v) {
  if (v.is_object() && v.contains("config") && v["config"].contains("value"))
    return as_float(v["config"]["value"]);  // an array, as Keras 2 writes slopes
  if (!v.is_number()) throw bad_input("a number is expected in the configuration");
  return v.get<float>();
}

float Translator::number(std::string_view key, float missing) const {
  const json* v = find(key);
  return v == nullptr ? missing : as_float(*v);
}

std::int64_t Translator::integer(std::string_view key, std::int64_t missing) const {
  const json* v = find(key);
  if (v == nullptr) return missing;
  if (v->is_array() && v->size() == 1) return json_integer((*v)[0], key);
  return json_integer(*v, key);
}

bool Translator::flag(std::string_view key, bool missing) const {
  const json* v = find(key);
  if (v == nullptr) return missing;
  if (!v->is_boolean()) throw bad_input("'{}' must be true or false", key);
  return v->get<bool>();
}

std::string Translator::text(std::string_view key, std::string_view missing) const {
  const json* v = find(key);
  if (v == nullptr) return std::string(missing);
  if (!v->is_string()) throw bad_input("'{}' must be a text", key);
  return v->get<std::string>();
}

// One number or one for each spatial axis.
Ints Translator::window(std::string_view key, int axes, std::int64_t missing) const {
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

int Translator::spatial_of(const std::string& type) {
  for (const char c : {'1', '2', '3'})
    if (type.find(std::string(1, c) + "D") != std::string::npos) return c - '0';
  throw UnknownLayer{"layer class " + type};
}

// ---- activations ----
ValueId Translator::activation(ValueId v, const json& how) {
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

ValueId Translator::activation_named(ValueId v, const std::string& f) {
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
  if (f == "hard_silu" || f == "hard_swish") return b_.elementwise("hard_swish", name, {v});
  if (f == "exponential") return b_.elementwise("exp", name, {v});
  if (f == "swish" || f == "silu") return b_.elementwise("silu", name, {v});
  if (f == "leaky_relu") return b_.elementwise("leaky_relu", name, {v}, {{"alpha", 0.2F}});
  if (f == "hard_tanh") return b_.elementwise("clip", name, {v}, {{"min", -1.0F}, {"max", 1.0F}});
  if (f == "hard_shrink")
    return b_.elementwise("shrink", name, {v}, {{"lambd", 0.5F}, {"bias", 0.0F}});
  if (f == "soft_shrink")
    return b_.elementwise("shrink", name, {v}, {{"lambd", 0.5F}, {"bias", 0.5F}});
  if (f == "tanh_shrink")
    return b_.elementwise("sub", name, {v, b_.elementwise("tanh", name + ".tanh", {v})});
  const auto number_of = [&](float value) {
    return b_.constant(name + ".number", scalar_of(DType::f32, value));
  };
  if (f == "squareplus") {  // (x + sqrt(x x + 4)) / 2
    const ValueId square = b_.elementwise("mul", name + ".square", {v, v});
    const ValueId root = b_.elementwise(
        "sqrt", name + ".root", {b_.elementwise("add", name + ".above", {square, number_of(4)})});
    return b_.elementwise("div", name,
                          {b_.elementwise("add", name + ".sum", {v, root}), number_of(2)});
  }
  for (const char* same : {"relu", "sigmoid", "tanh", "elu", "selu", "softplus", "softsign", "gelu",
                           "mish", "celu", "log_sigmoid"})
    if (f == same) return b_.elementwise(same, name, {v});
  throw UnknownLayer{"activation " + f};
}

ValueId Translator::finish(ValueId v) {
  const json* how = find("activation");
  return how == nullptr ? v : activation(v, *how);
}

ValueId Translator::dense(ValueId v) {
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

}  // namespace etalon::keras_format
