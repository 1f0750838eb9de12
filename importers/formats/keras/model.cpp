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
#include "importers/formats/keras/tensorflow_calls.h"
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

  // A layer whose policy computes in 16 bits is computed in f32 here.
  void note_policy(const json& config) {
    const auto at = config.find("dtype");
    if (at == config.end()) return;
    std::string policy;
    if (at->is_object() && at->contains("class_name") && (*at)["class_name"].is_string())
      policy = (*at)["class_name"].get<std::string>();
    if (policy.starts_with("Quantized"))
      throw UnknownLayer{"a layer of the policy " + printable(policy)};
    if (at->is_string()) policy = at->get<std::string>();
    if (at->is_object() && at->contains("config") && (*at)["config"].is_object() &&
        (*at)["config"].contains("name") && (*at)["config"]["name"].is_string())
      policy = (*at)["config"]["name"].get<std::string>();
    if (policy.find("_from_") != std::string::npos)  // int8_from_float32
      throw UnknownLayer{"a layer of the policy " + printable(policy)};
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
    for (const char* key : {"input_dtype", "dtype"})  // Keras 1 has the first of them
      if (config.contains(key) && config[key].is_string())
        dtype = tensor_type(config[key].get<std::string>());
    return b_.input(name, dtype, dims, nominal);
  }
  static const json* shape_of(const json& config) {
    for (const char* key : {"batch_input_shape", "batch_shape"})
      if (config.contains(key) && config[key].is_array()) return &config[key];
    return nullptr;
  }

  static bool begins_with_states(std::string_view type) {
    return type == "LSTM" || type == "GRU" || type == "SimpleRNN" || type == "RNN" ||
           type == "Bidirectional" || type == "CuDNNLSTM" || type == "CuDNNGRU" ||
           type.starts_with("ConvLSTM");
  }

  // A function of keras.ops. In .h5 files nothing says so, but that it cannot be trained.
  bool is_operation(const json& layer, const json& config, const std::string& type) const {
    if (layer.contains("module"))
      return layer["module"].is_string() &&
             layer["module"].get_ref<const std::string&>().find(".ops") != std::string::npos;
    return origin_.version >= 3 && type != "InputLayer" && !config.contains("trainable") &&
           !config.contains("dtype");
  }

  // What a call gives besides its inputs.
  struct Given {
    std::vector<ValueId> masks = {}, states = {};
    bool causal = false;
    const json* arguments = nullptr;
  };

  std::vector<ValueId> call(const json& layer, const std::vector<ValueId>& inputs,
                            std::vector<std::string> path, int depth, const Given& given) {
    const std::string type = json_string(layer, "class_name"), name = name_of(layer);
    const ErrorScope scope("layer " + printable(name));
    path.push_back(name);
    if (is_model(layer)) return body(layer, inputs, path, depth + 1);
    const json& config = json_member(layer, "config");
    note_policy(config);
    // Up to Keras 2 the states that a recurrent layer begins with are further inputs of it.
    if (origin_.version < 3 && inputs.size() > 1 && begins_with_states(type) &&
        given.states.empty() &&
        (!config.contains("num_constants") || config["num_constants"].is_null())) {
      Given with = given;
      with.states.assign(inputs.begin() + 1, inputs.end());
      path.pop_back();
      return call(layer, {inputs[0]}, std::move(path), depth, with);
    }
    if (type == "TimeDistributed")
      if (const json& inner = json_member(config, "layer"); is_model(inner)) {
        if (inputs.size() != 1) throw UnknownLayer{"TimeDistributed of several inputs"};
        if (masks_.contains(inputs[0]) || !given.masks.empty())
          throw UnknownLayer{"TimeDistributed of a model behind a mask"};
        path.push_back(name_of(inner));
        const std::vector<ValueId> y =
            body(inner, {steps_as_batch(b_, name, inputs[0])}, path, depth + 1);
        if (y.size() != 1) throw UnknownLayer{"TimeDistributed of several outputs"};
        return {batch_as_steps(b_, name, y[0], inputs[0])};
      }
    const bool operation = is_operation(layer, config, type);
    // The masks of the inputs; one that merged layers made of several is not known.
    std::vector<ValueId> masks(inputs.size(), kAbsent);
    bool masked = false, unknown = false;
    for (std::size_t i = 0; i < inputs.size() && !operation; ++i)
      if (const auto at = masks_.find(inputs[i]); at != masks_.end()) {
        masks[i] = at->second;
        masked = true;
        unknown = unknown || at->second == kAbsent;
      }
    if (!given.masks.empty()) {
      masks = given.masks;
      masked = true;
      unknown = false;
    }
    for (const ValueId m : masks)
      unknown = unknown || (m != kAbsent && b_.dtype(m) != DType::boolean);
    MaskUse use = masked ? mask_use(type, config, origin_.version) : MaskUse::ends;
    if (!given.masks.empty() && type == "MultiHeadAttention") use = MaskUse::takes;
    if (use == MaskUse::computes || (use == MaskUse::takes && unknown))
      throw UnknownLayer{fmt::format("'{}', {} behind a mask,", printable(name), printable(type))};
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
        if (t.tensor.dtype() == DType::i8 || t.tensor.dtype() == DType::u8)
          throw UnknownLayer{fmt::format("'{}', whose weights are quantised,", printable(name))};
        values.push_back(b_.constant(name + "." + label, std::move(t.tensor)));
      }
      held = held_.emplace(key, std::move(values)).first;
    }
    LayerCall made{type, name, config, inputs, held->second};
    // Keras 3 hands a layer of two tensor arguments no mask but one that is named in its call.
    const bool unseen = origin_.version >= 3 && !given.states.empty() && given.masks.empty();
    if (use == MaskUse::takes && !unseen) made.masks = masks;
    made.states = given.states;
    made.causal = given.causal;
    made.operation = operation;
    made.arguments = given.arguments;
    std::vector<ValueId> y = translate(b_, origin_, made);
    if (use == MaskUse::passes) {
      ValueId mask = masks.empty() ? kAbsent : masks[0];
      for (const ValueId m : masks) mask = m == mask ? mask : kAbsent;
      masks_[y[0]] = unknown ? kAbsent : mask;
    }
    // So does Keras 3: layers behind it that look at the same values find no mask there.
    if (type == "MultiHeadAttention" && given.masks.empty())
      for (const ValueId v : inputs) masks_.erase(v);
    if (use == MaskUse::takes && masks[0] != kAbsent && keeps_mask(type, config))
      masks_[y[0]] = masks[0];
    if (starts_mask(type, config)) masks_[y[0]] = new_mask(type, name, config, inputs.at(0));
    return y;
  }

  // Of Embedding: an index that is not 0. Of Masking: a step of which something is not its value.
  ValueId new_mask(const std::string& type, const std::string& name, const json& config,
                   ValueId of) {
    const bool steps = type == "Masking";
    double value = 0;
    if (steps && config.contains("mask_value") && config["mask_value"].is_number())
      value = config["mask_value"].get<double>();
    const ValueId none = b_.constant(name + ".none", scalar_of(b_.dtype(of), value));
    ValueId mask = b_.op("not", name + ".mask", {b_.op("equal", name + ".padding", {of, none})});
    if (steps)
      mask = b_.op("reduce_max", name + ".mask_of_steps", {mask},
                   {{"axes", Ints{-1}}, {"keepdims", false}});
    return mask;
  }

  // What the first layer of a Sequential is called with; of a model its values.
  std::vector<ValueId> started(const json& layer, const json& config,
                               const std::vector<std::string>& path, int depth) {
    const json& c = json_member(layer, "config");
    // Keras 1 begins with several models by merging them; their layers stand beside its own.
    if (json_string(layer, "class_name") == "Merge" && c.contains("layers")) {
      if (depth > kMaxNesting) throw bad_input("models nest deeper than {} levels", kMaxNesting);
      std::vector<ValueId> all;
      for (const json& branch : json_array(c, "layers")) {
        std::vector<ValueId> y;
        if (is_model(branch)) {
          y = body(branch, {}, path, depth + 1);
        } else {
          y = call(branch, started(branch, json::object(), path, depth + 1), path, depth + 1, {});
        }
        all.insert(all.end(), y.begin(), y.end());
      }
      return all;
    }
    const json* shape = shape_of(c);
    if (shape == nullptr && config.is_object() && config.contains("build_input_shape"))
      shape = &config["build_input_shape"];
    if (shape == nullptr && is_model(layer)) return call(layer, {}, path, depth, {});
    const json own = shape != nullptr ? *shape : own_shape(layer, c);
    const ValueId in = input("input", own, c);
    return is_model(layer) ? call(layer, {in}, path, depth, {}) : std::vector{in};
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
        if (v.empty()) {
          v = started(layer, config, path, depth);
          if (is_model(layer)) continue;
        }
        v = call(layer, v, path, depth, {});
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
    bool absent = false;                // None in a list of masks
  };
  using Arguments = std::vector<Argument>;

  struct Call {
    const std::string& layer;
    const std::string& type;
    const json& config;
    Arguments tensors = {}, masks = {}, states = {};
    bool causal = false;
    const json* arguments = nullptr;
  };

  // What a call gives by name must be nothing, or be known: what else it changes is not in the
  // configuration.
  void named(const json& kwargs, Call& out, int depth) const {
    if (!kwargs.is_object()) return;
    const auto tensors = [&](const json& value) {
      Call inner{out.layer, out.type, out.config};
      references(value, inner, depth + 1);
      for (const Argument& a : inner.tensors)
        if (a.number) throw bad_input("'{}' is called with a number for a tensor", out.layer);
      return std::move(inner.tensors);
    };
    const auto put_mask = [&](std::size_t at, const json& value) {
      while (out.masks.size() <= at) out.masks.push_back({{}, 0, {}, true});
      const Arguments one = tensors(value);
      if (one.size() != 1) throw bad_input("the mask of a call must be one tensor");
      out.masks[at] = one[0];
    };
    const bool attention = out.type.ends_with("ttention");
    if (attention)
      for (const char* role : {"query", "value", "key"})
        if (kwargs.contains(role) && !kwargs[role].is_null()) {
          const Arguments one = tensors(kwargs[role]);
          if (one.size() != 1) throw bad_input("the {} of a call must be one tensor", role);
          out.tensors.push_back(one[0]);
        }
    for (const auto& [name, value] : kwargs.items()) {
      if (value.is_null() || value == false || name == "training") continue;
      if (attention && (name == "query" || name == "value" || name == "key")) continue;
      const MaskUse use = mask_use(out.type, out.config, origin_.version);
      // Keras 2 takes a mask that the call names; those that go along unseen it took in some
      // versions.
      const bool attends =
          out.type.ends_with("ttention") &&
          (use == MaskUse::takes || (origin_.version == 2 && out.type == "MultiHeadAttention"));
      constexpr std::string_view kMasks[] = {"query_mask", "value_mask", "key_mask",
                                             "attention_mask"};
      const auto at = std::ranges::find(kMasks, name);
      if (name == "mask" && use != MaskUse::computes) {
        if (use != MaskUse::takes) continue;
        // Of attention a list, of others one tensor, which looks like a list up to Keras 2.
        if (attends && value.is_array() && !(value.size() >= 3 && value[0].is_string())) {
          for (std::size_t i = 0; i < value.size(); ++i)
            if (!value[i].is_null()) put_mask(i, value[i]);
        } else {
          put_mask(0, value);
        }
      } else if (attends && at != std::end(kMasks)) {
        put_mask(static_cast<std::size_t>(at - std::begin(kMasks)), value);
      } else if (attends && name == "use_causal_mask" && value == true) {
        out.causal = true;
      } else if (name == "initial_state" && use == MaskUse::takes && !attends) {
        out.states = tensors(value);
      } else {
        throw UnknownLayer{fmt::format("'{}', {} called with the argument {},",
                                       printable(out.layer), printable(out.type), printable(name))};
      }
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
      const json& args = v["args"];
      out.arguments = &args;
      if (out.type == "GetItem" && args.is_array() && !args.empty())
        references(args[0], out, depth + 1);  // what is behind it says which elements
      else
        references(args, out, depth + 1);
      if (v.contains("kwargs")) named(v["kwargs"], out, depth);
    } else if (v.is_number()) {
      out.tensors.push_back({{}, 0, v.get<double>()});
    } else if (!v.is_null()) {
      throw UnknownLayer{fmt::format("'{}', {} called with a text or a truth value,",
                                     printable(out.layer), printable(out.type))};
    }
  }

  // A number in a call of an operator, as 2 in 2 * x; it takes the type of `beside`.
  ValueId number(const Call& call, double value, ValueId beside) {
    if (takes_numbers(call.type))
      return b_.constant(call.layer + ".number", scalar_of(b_.dtype(beside), value));
    throw UnknownLayer{
        fmt::format("'{}', {} called with a number,", printable(call.layer), printable(call.type))};
  }

  using Values = std::map<Reference, std::vector<ValueId>>;
  // The values of arguments, all of them made; kAbsent for a number.
  static std::vector<ValueId> made_of(const Arguments& arguments, const Values& values) {
    std::vector<ValueId> out;
    for (const auto& [from, tensor, value, absent] : arguments) {
      if (value || absent) {
        out.push_back(kAbsent);
        continue;
      }
      const std::vector<ValueId>& have = values.at(from);
      if (tensor < 0 || static_cast<std::size_t>(tensor) >= have.size())
        throw bad_input("layer '{}' has no output {}", printable(from.first), tensor);
      out.push_back(have[static_cast<std::size_t>(tensor)]);
    }
    return out;
  }
  static std::optional<Reference> first_lacking(const Call& call, const Values& values) {
    for (const Arguments* list : {&call.tensors, &call.masks, &call.states})
      for (const auto& [from, tensor, value, absent] : *list)
        if (!value && !absent && !values.contains(from)) return from;
    return std::nullopt;
  }
  std::vector<ValueId> called(const json& layer, const Call& made, const Values& values,
                              const std::vector<std::string>& path, int depth) {
    std::vector<ValueId> inputs = made_of(made.tensors, values);
    const auto tensor = std::ranges::find_if(inputs, [](ValueId v) { return v != kAbsent; });
    if (tensor == inputs.end()) throw bad_input("a call with numbers alone");
    const ValueId beside = *tensor;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (const auto& constant = made.tensors[i].number)
        inputs[i] = number(made, *constant, beside);
    return call(
        layer, inputs, path, depth,
        {made_of(made.masks, values), made_of(made.states, values), made.causal, made.arguments});
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
        if (is_function(call.type)) {
          call.arguments = &node;
          for (const json* t : tensors_of_call(node))
            references(json::array({(*t)[0], (*t)[1], (*t)[2]}), call, 0);
          if (call.tensors.empty())
            throw UnknownLayer{fmt::format("'{}', a function of TensorFlow without a tensor,",
                                           printable(call.layer))};
        } else {
          references(node, call, 0);
        }
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
    const auto nested = [&](const std::string& name) {
      const auto at = layers.find(name);
      return at != layers.end() && is_model(*at->second.config) ? &at->second : nullptr;
    };
    // Calls of a model in this one are numbered from 1 on, those of other layers from 0: up to
    // Keras 2 everywhere, but for some Sequentials, from Keras 3 on where outputs name a functional
    // one.
    constexpr std::int64_t kMostCalls = 1 << 20;
    std::map<std::string, std::int64_t> before;
    const auto each = [&](auto&& f) {
      for (auto& [name, layer] : layers)
        for (Call& call : layer.calls)
          for (Arguments* list : {&call.tensors, &call.masks, &call.states})
            for (Argument& a : *list)
              if (!a.number && !a.absent && nested(a.from.first) != nullptr) f(a.from);
    };
    if (origin_.version < 3) {
      const auto least = [&](const Reference& r) {
        if (r.second < 0 || r.second > kMostCalls)
          throw bad_input("call {} of model '{}'", r.second, printable(r.first));
        const auto [at, is_new] = before.emplace(r.first, r.second);
        at->second = std::min(at->second, r.second);
      };
      each(least);
      for (const Argument& a : outs)
        if (nested(a.from.first) != nullptr) least(a.from);
      each([&](Reference& r) { r.second -= before.at(r.first); });
    } else {
      for (const auto& [name, layer] : layers)
        before.emplace(name, nested(name) != nullptr && layer.type != "Sequential" ? 1 : 0);
    }
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
    // Each call is made as soon as the last of what it takes is; those of a circle never are.
    std::vector<std::pair<const Layer*, Reference>> all;
    for (const std::string& name : order)
      for (std::size_t n = 0; n < layers.at(name).calls.size(); ++n)
        all.push_back({&layers.at(name), {name, static_cast<std::int64_t>(n)}});
    std::map<Reference, std::vector<std::size_t>> waiting;
    for (std::size_t given = 0; given < all.size(); ++given) {
      for (std::vector<std::size_t> ready_ones{given}; !ready_ones.empty();) {
        const std::size_t i = ready_ones.back();
        ready_ones.pop_back();
        const auto& [l, self] = all[i];
        const Call& made = l->calls[static_cast<std::size_t>(self.second)];
        if (values.contains(self) || made.tensors.empty()) continue;
        if (const auto lacking = first_lacking(made, values)) {
          waiting[*lacking].push_back(i);
          continue;
        }
        values[self] = called(*l->config, made, values, path, depth);
        const auto behind = waiting.find(self);
        if (behind == waiting.end()) continue;
        // The last is taken first.
        ready_ones.insert(ready_ones.end(), behind->second.rbegin(), behind->second.rend());
        waiting.erase(behind);
      }
    }
    std::vector<ValueId> out;
    for (const auto& [from, tensor, value, absent] : outs) {
      const auto skipped = before.find(from.first);
      const std::int64_t ahead = skipped == before.end() ? 0 : skipped->second;
      auto have =
          from.second < ahead ? values.end() : values.find({from.first, from.second - ahead});
      // One call alone is meant whatever its number.
      if (const Layer* one = nested(from.first);
          have == values.end() && one != nullptr && one->calls.size() == 1)
        have = values.find({from.first, 0});
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
