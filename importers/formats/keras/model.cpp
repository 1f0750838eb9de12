#include "importers/formats/keras/model.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/masks.h"
#include "importers/formats/keras/weights.h"
#include "importers/formats/scalar.h"

namespace etalon::keras_format {
namespace {

using nlohmann::json;

class ModelBuilder {
 public:
  ModelBuilder(GraphBuilder& b, const Origin& origin, const WeightsOf& weights)
      : b_(b), origin_(origin), weights_(weights) {}

  void build(const json& model) {
    const std::vector<ValueId> outputs = body(model, {}, {}, 0);
    if (outputs.empty()) throw bad_input("the model gives no output");
    for (std::size_t i = 0; i < outputs.size(); ++i)
      b_.output(outputs[i], outputs.size() == 1 ? "output" : "output_" + std::to_string(i));
  }

 private:
  static std::string name_of(const json& layer) {
    if (layer.contains("name") && layer["name"].is_string())
      return layer["name"].get<std::string>();
    const json& config = json_member(layer, "config");
    return config.contains("name") && config["name"].is_string() ? config["name"].get<std::string>()
                                                                 : json_string(layer, "class_name");
  }

  static bool is_sequential(const json& model) {
    return json_string(model, "class_name") == "Sequential";
  }
  static bool is_model(const json& layer) {
    const std::string type = json_string(layer, "class_name");
    return type == "Sequential" || type == "Functional" || type == "Model";
  }

  static DType input_type(const std::string& text) {
    constexpr std::pair<std::string_view, DType> kTypes[] = {
        {"float32", DType::f32},  {"float64", DType::f64},   {"float16", DType::f16},
        {"bool", DType::boolean}, {"bfloat16", DType::bf16}, {"int8", DType::i8},
        {"int16", DType::i16},    {"int32", DType::i32},     {"int64", DType::i64},
        {"uint8", DType::u8},     {"uint16", DType::u16}};
    for (const auto& [theirs, ours] : kTypes)
      if (text == theirs) return ours;
    if (text.starts_with("mixed_")) return DType::f32;
    throw UnknownLayer{"an input of type " + printable(text)};
  }

  // A layer whose policy computes in 16 bits is computed in f32 here.
  void note_policy(const json& config) {
    const auto at = config.find("dtype");
    if (at == config.end()) return;
    std::string policy;
    if (at->is_string()) policy = at->get<std::string>();
    if (at->is_object() && at->contains("config") && (*at)["config"].is_object() &&
        (*at)["config"].contains("name") && (*at)["config"]["name"].is_string())
      policy = (*at)["config"]["name"].get<std::string>();
    if (policy.starts_with("mixed_"))
      b_.note(fmt::format("Layers of policy {} compute in 16 bits in Keras, in f32 here.",
                          printable(policy)));
  }

  ValueId input(const std::string& name, const json& shape, const json& config) {
    Ints dims, nominal;
    if (!shape.is_array() || shape.empty()) throw UnknownLayer{"an input without a shape"};
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const bool open = shape[i].is_null();
      dims.push_back(i == 0 || open ? -1 : json_integer(shape[i], "an input's shape"));
      // A free extent of a picture is tried at a size that the usual poolings leave something of.
      nominal.push_back(i == 0 ? 1 : !open ? dims.back() : shape.size() >= 4 ? 224 : 16);
    }
    DType dtype = DType::f32;
    if (config.contains("dtype") && config["dtype"].is_string())
      dtype = input_type(config["dtype"].get<std::string>());
    return b_.input(name, dtype, dims, nominal);
  }
  static const json* shape_of(const json& config) {
    for (const char* key : {"batch_input_shape", "batch_shape"})
      if (config.contains(key) && config[key].is_array()) return &config[key];
    return nullptr;
  }

  std::vector<ValueId> call(const json& layer, const std::vector<ValueId>& inputs,
                            std::vector<std::string> path, int depth,
                            ValueId given_mask = kAbsent) {
    const std::string type = json_string(layer, "class_name"), name = name_of(layer);
    const ErrorScope scope("layer " + printable(name));
    path.push_back(name);
    if (is_model(layer)) return body(layer, inputs, path, depth + 1);
    const json& config = json_member(layer, "config");
    note_policy(config);
    const bool operation =
        layer.contains("module") && layer["module"].is_string() &&
        layer["module"].get_ref<const std::string&>().find(".ops") != std::string::npos;
    const auto masked = std::ranges::find_if(inputs, [&](ValueId v) { return masks_.contains(v); });
    const MaskUse use = masked == inputs.end() && given_mask == kAbsent
                            ? MaskUse::ends
                            : mask_use(type, config, origin_.version);
    ValueId mask = masked == inputs.end() ? kAbsent : masks_.at(*masked);
    for (const ValueId v : inputs)  // kAbsent: one that is not known
      if (const auto at = masks_.find(v); at == masks_.end() || at->second != mask) mask = kAbsent;
    if (given_mask != kAbsent) mask = given_mask;
    const bool unknown = mask == kAbsent || b_.dtype(mask) != DType::boolean;
    if (use == MaskUse::computes || (use == MaskUse::mean && unknown))
      throw UnknownLayer{fmt::format("'{}', {} behind a mask (Embedding with mask_zero),",
                                     printable(name), printable(type))};
    if (is_identity(type) && inputs.size() <= 1) return {inputs.empty() ? kAbsent : inputs[0]};
    // A layer that is used more than once has one set of weights.
    std::string key;
    for (const std::string& p : path) key += "/" + p;
    auto held = held_.find(key);
    if (held == held_.end()) {
      std::vector<ValueId> values;
      for (NamedTensor& t : weights_(path)) {
        std::string label = t.name.substr(t.name.rfind('/') + 1);
        label = label.substr(0, label.find(':'));
        values.push_back(b_.constant(name + "." + label, std::move(t.tensor)));
      }
      held = held_.emplace(key, std::move(values)).first;
    }
    const ValueId y = translate(b_, origin_,
                                {type, name, config, inputs, held->second,
                                 use == MaskUse::mean ? mask : kAbsent, operation});
    if (use == MaskUse::passes) masks_[y] = mask;
    if (starts_mask(type, config)) {
      const Tensor zero = scalar_of(b_.dtype(inputs.at(0)), 0);
      masks_[y] = b_.op("not", name + ".mask",
                        {b_.op("equal", name + ".padding",
                               {inputs[0], b_.constant(name + ".zero", zero.share())})});
    }
    return {y};
  }

  // The values a model gives for `inputs`; without any, it makes its own.
  std::vector<ValueId> body(const json& model, std::vector<ValueId> inputs,
                            const std::vector<std::string>& path, int depth) {
    if (depth > kMaxNesting) throw bad_input("models nest deeper than {} levels", kMaxNesting);
    const json& config = json_member(model, "config");
    if (is_sequential(model)) {
      const json& layers = config.is_array() ? config : json_array(config, "layers");
      std::vector<ValueId> v = std::move(inputs);
      for (const json& layer : layers) {
        const json& c = json_member(layer, "config");
        if (v.empty()) {
          const json* shape = shape_of(c);
          if (shape == nullptr && config.is_object() && config.contains("build_input_shape"))
            shape = &config["build_input_shape"];
          if (shape == nullptr && is_model(layer)) {
            v = call(layer, {}, path, depth);
            continue;
          }
          const json own = shape != nullptr ? *shape : own_shape(layer, c);
          v = {input("input", own, c)};
        }
        v = call(layer, v, path, depth);
      }
      return v;
    }
    return functional(config, inputs, path, depth);
  }

  // Keras 1's Dense and Embedding say only what they take.
  static json own_shape(const json& layer, const json& c) {
    const std::string type = json_string(layer, "class_name");
    if (type == "Embedding")
      return json::array({nullptr, c.contains("input_length") ? c["input_length"] : json(nullptr)});
    if (c.contains("input_dim") && c["input_dim"].is_number())
      return json::array({nullptr, c["input_dim"]});
    throw UnknownLayer{"a model without its input's shape"};
  }

  using Reference = std::pair<std::string, std::int64_t>;  // layer, node
  struct Argument {
    Reference from;
    std::int64_t tensor = 0;
    std::optional<double> number = {};  // instead of a tensor
  };
  using Arguments = std::vector<Argument>;

  struct Call {
    const std::string& layer;
    const std::string& type;
    const json& config;
    Arguments tensors = {};
    Arguments mask = {};  // of a mean, one
  };

  // What a call gives by name must be nothing, or a mask that the layer passes by: what else it
  // changes is not in the configuration.
  void named(const json& kwargs, Call& out, int depth) const {
    if (!kwargs.is_object()) return;
    for (const auto& [name, value] : kwargs.items()) {
      if (value.is_null() || value == false) continue;
      const MaskUse use =
          name == "mask" ? mask_use(out.type, out.config, origin_.version) : MaskUse::computes;
      if (use == MaskUse::computes)
        throw UnknownLayer{fmt::format("'{}', {} called with the argument {},",
                                       printable(out.layer), printable(out.type), printable(name))};
      if (use != MaskUse::mean) continue;
      Call inner{out.layer, out.type, out.config};
      references(value, inner, depth + 1);
      if (inner.tensors.size() != 1 || inner.tensors[0].number)
        throw bad_input("the mask of a call must be one tensor");
      out.mask = std::move(inner.tensors);
    }
  }

  // All tensors that an inbound node names, in order: [layer, node, tensor(, kwargs)] up to Keras
  // 2, __keras_tensor__ from Keras 3 on, where numbers stand among them.
  void references(const json& v, Call& out, int depth) const {
    if (depth > kMaxNesting) throw bad_input("a call nests too deep");
    if (v.is_array()) {
      if (v.size() >= 3 && v[0].is_string() && v[1].is_number() && v[2].is_number()) {
        out.tensors.push_back({{v[0].get<std::string>(), json_integer(v[1], "a node")},
                               json_integer(v[2], "a tensor")});
        if (v.size() > 3) named(v[3], out, depth);
        return;
      }
      for (const json& e : v) references(e, out, depth + 1);
    } else if (v.is_object()) {
      if (v.contains("class_name") && v["class_name"] == "__keras_tensor__") {
        const json& history = json_array(json_member(v, "config"), "keras_history");
        return references(history, out, depth + 1);
      }
      if (!v.contains("args"))
        throw UnknownLayer{fmt::format("'{}', {} called with a value that no layer gives,",
                                       printable(out.layer), printable(out.type))};
      if (v.contains("kwargs")) named(v["kwargs"], out, depth);
      references(v["args"], out, depth + 1);
    } else if (v.is_number()) {
      out.tensors.push_back({{}, 0, v.get<double>()});
    } else if (!v.is_null()) {
      throw UnknownLayer{fmt::format("'{}', {} called with a text or a truth value,",
                                     printable(out.layer), printable(out.type))};
    }
  }

  // A number in a call of an operator, as 2 in 2 * x; it takes the type of `beside`.
  ValueId number(const Call& call, double value, ValueId beside) {
    for (const char* t : {"Add", "Subtract", "Multiply", "NotEqual"})
      if (call.type == t)
        return b_.constant(call.layer + ".number", scalar_of(b_.dtype(beside), value));
    throw UnknownLayer{
        fmt::format("'{}', {} called with a number,", printable(call.layer), printable(call.type))};
  }

  using Values = std::map<Reference, std::vector<ValueId>>;
  // The values of arguments, kAbsent for a number; nothing while one of them is not made yet.
  static std::optional<std::vector<ValueId>> ready(const Arguments& arguments,
                                                   const Values& values) {
    std::vector<ValueId> out;
    for (const auto& [from, tensor, value] : arguments) {
      if (value) {
        out.push_back(kAbsent);
        continue;
      }
      const auto have = values.find(from);
      if (have == values.end()) return std::nullopt;
      if (tensor < 0 || static_cast<std::size_t>(tensor) >= have->second.size())
        throw bad_input("layer '{}' has no output {}", printable(from.first), tensor);
      out.push_back(have->second[static_cast<std::size_t>(tensor)]);
    }
    return out;
  }

  std::vector<ValueId> functional(const json& config, const std::vector<ValueId>& inputs,
                                  const std::vector<std::string>& path, int depth) {
    struct Layer {
      const json* config;
      std::string type;
      std::vector<Call> calls;
    };
    std::map<std::string, Layer> layers;
    std::vector<std::string> order;
    for (const json& l : json_array(config, "layers")) {
      const auto [at, is_new] =
          layers.emplace(name_of(l), Layer{&l, json_string(l, "class_name"), {}});
      if (!is_new) throw bad_input("two layers are called '{}'", printable(at->first));
      for (const json& node : json_array(l, "inbound_nodes")) {
        Call call{at->first, at->second.type, json_member(l, "config")};
        references(node, call, 0);
        at->second.calls.push_back(std::move(call));
      }
      order.push_back(at->first);
    }
    Values values;
    const std::string model = "the model", ends = "ends";
    Call first{model, ends, config}, last{model, ends, config};
    references(json_array(config, "input_layers"), first, 0);
    references(json_array(config, "output_layers"), last, 0);
    const Arguments &ins = first.tensors, &outs = last.tensors;
    if (!inputs.empty() && inputs.size() != ins.size())
      throw bad_input("a nested model of {} inputs is given {}", ins.size(), inputs.size());
    for (std::size_t i = 0; i < ins.size(); ++i) {
      const auto at = layers.find(ins[i].from.first);
      if (at == layers.end()) throw bad_input("no input layer '{}'", printable(ins[i].from.first));
      const json& c = json_member(*at->second.config, "config");
      const json* shape = shape_of(c);
      if (inputs.empty() && shape == nullptr) throw UnknownLayer{"an input without a shape"};
      values[{at->first, 0}] = {inputs.empty() ? input(at->first, *shape, c) : inputs[i]};
    }
    // Calls become ready one after the other; a round without any is a circle.
    for (bool moved = true; moved;) {
      moved = false;
      for (const std::string& name : order) {
        const Layer& l = layers.at(name);
        for (std::size_t n = 0; n < l.calls.size(); ++n) {
          const Call& made = l.calls[n];
          const Reference self{name, static_cast<std::int64_t>(n)};
          if (values.contains(self) || made.tensors.empty()) continue;
          const auto args = ready(made.tensors, values);
          const auto mask = ready(made.mask, values);
          if (!args || !mask) continue;
          const auto tensor = std::ranges::find_if(*args, [](ValueId v) { return v != kAbsent; });
          if (tensor == args->end()) throw bad_input("a call with numbers alone");
          std::vector<ValueId> inputs_of = *args;
          for (std::size_t i = 0; i < inputs_of.size(); ++i)
            if (made.tensors[i].number)
              inputs_of[i] = number(made, *made.tensors[i].number, *tensor);
          values[self] =
              call(*l.config, inputs_of, path, depth, mask->empty() ? kAbsent : mask->front());
          moved = true;
        }
      }
    }
    std::vector<ValueId> out;
    for (const auto& [from, tensor, value] : outs) {
      auto have = values.find(from);
      // A nested model's nodes are numbered on from those it was made with; which of several is
      // meant would be a guess.
      if (have == values.end()) {
        const auto made = std::ranges::count_if(
            values, [&](const auto& v) { return v.first.first == from.first; });
        if (made > 1)
          throw UnknownLayer{fmt::format("an output of '{}', which is called {} times,",
                                         printable(from.first), made)};
        have = values.find({from.first, 0});
      }
      if (have == values.end() || tensor < 0 ||
          static_cast<std::size_t>(tensor) >= have->second.size())
        throw bad_input("nothing gives the output of layer '{}'", printable(from.first));
      out.push_back(have->second[static_cast<std::size_t>(tensor)]);
    }
    return out;
  }

  GraphBuilder& b_;
  const Origin& origin_;
  const WeightsOf& weights_;
  std::map<std::string, std::vector<ValueId>> held_;
  std::map<ValueId, ValueId> masks_;  // of values that have one
};

}  // namespace

void build_model(GraphBuilder& graph, const json& config, const Origin& origin,
                 const WeightsOf& weights) {
  ModelBuilder(graph, origin, weights).build(config);
}

}  // namespace etalon::keras_format
