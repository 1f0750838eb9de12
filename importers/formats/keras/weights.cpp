#include "importers/formats/keras/weights.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"

namespace etalon::keras_format {
namespace {

using nlohmann::json;

class H5Weights {
 public:
  H5Weights(const Hdf5File& file, Hdf5Object group, const json& model)
      : file_(file), group_(std::move(group)) {
    collect(model);
  }
  TensorList of(const std::vector<std::string>& path) const {
    // A nested model's weights all stand in the group of the outermost one, by their layer's name.
    const Group* outer = group_of(path.front());
    // A Sequential inside of another has no name in Keras 1: it is that which holds the layer.
    if (!outer->object && path.size() > 1)
      if (const auto holder = holder_of(path.back())) outer = group_of(*holder);
    TensorList out;
    if (!outer->object) return out;
    std::string before;
    const std::string inner = "/" + path.back() + "/";
    for (const auto& [name, owner] : outer->weights) {
      if (path.size() > 1) {
        const std::size_t at = owner == path.back() ? 0 : name.find(inner);
        if (at == std::string::npos) continue;
        // Two models may hold layers of one name.
        if (out.empty()) before = name.substr(0, at);
        if (name.substr(0, at) != before)
          throw UnknownLayer{fmt::format("'{}', a layer whose name stands twice in nested models,",
                                         printable(path.back()))};
      }
      out.push_back({name, file_.read(file_.child(*outer->object, name))});
    }
    return out;
  }

 private:
  struct Group {
    std::optional<Hdf5Object> object;
    std::vector<std::pair<std::string, std::string>>
        weights;  // name, the layer that it begins with
  };
  void collect(const json& v) {
    if (v.is_object() && v.contains("name") && v["name"].is_string())
      names_.insert(v["name"].get<std::string>());
    if (v.is_structured())
      for (const json& inner : v) collect(inner);
  }
  // "dense_1/kernel:0", up to Keras 1 "dense_1_W:0", is no weight of a layer "dense".
  std::string owner_of(const std::string& weight) const {
    for (std::size_t end = weight.find_last_of("/_"); end != std::string::npos && end > 0;
         end = weight.find_last_of("/_", end - 1))
      if (const auto at = names_.find(std::string_view(weight).substr(0, end)); at != names_.end())
        return *at;
    return "";
  }
  // Each is read once, however many layers stand in it.
  const Group* group_of(const std::string& name) const {
    const auto [at, is_new] = groups_.try_emplace(name);
    Group& g = at->second;
    if (!is_new) return &g;
    g.object = file_.find(group_, name);
    if (!g.object) return &g;
    const auto take = [&](const Hdf5Value& list) {
      for (const std::string& weight : list.texts) g.weights.emplace_back(weight, owner_of(weight));
    };
    if (const Hdf5Value* v = g.object->attribute("weight_names")) take(*v);
    for (int part = 0;; ++part) {  // long lists are cut in pieces
      const Hdf5Value* v = g.object->attribute("weight_names" + std::to_string(part));
      if (v == nullptr) break;
      take(*v);
    }
    return &g;
  }
  // The group whose weights are those of a layer.
  std::optional<std::string> holder_of(const std::string& layer) const {
    if (!holders_) {
      holders_.emplace();
      for (const auto& [name, where] : group_.children)
        for (const auto& [weight, owner] : group_of(name)->weights) (*holders_)[owner].insert(name);
    }
    const auto found = holders_->find(layer);
    if (found == holders_->end()) return std::nullopt;
    if (found->second.size() > 1)
      throw UnknownLayer{fmt::format("'{}', a layer that two models hold,", printable(layer))};
    return *found->second.begin();
  }
  const Hdf5File& file_;
  Hdf5Object group_;
  std::set<std::string, std::less<>> names_;  // of layers
  mutable std::map<std::string, Group> groups_;
  mutable std::optional<std::map<std::string, std::set<std::string>>> holders_;  // of each layer
};

// "MaxPooling2D" is "max_pooling2d", "LSTM" is "lstm".
std::string snake_case(const std::string& name) {
  std::string out;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto upper = [&](std::size_t k) {
      return k < name.size() && name[k] >= 'A' && name[k] <= 'Z';
    };
    const auto lower = [&](std::size_t k) {
      return k < name.size() && name[k] >= 'a' && name[k] <= 'z';
    };
    if (upper(i) && i > 0 && (lower(i - 1) || lower(i + 1))) out += '_';
    out += upper(i) ? static_cast<char>(name[i] + 32) : name[i];
  }
  return out;
}

class V3Weights {
 public:
  V3Weights(const Hdf5File& file, const json& model) : file_(file), root_(file.root()) {
    number(model, "", {}, 0);
  }
  TensorList of(const std::vector<std::string>& path) const {
    TensorList out;
    std::string key;
    for (const std::string& p : path) key += "/" + p;
    const auto at = paths_.find(key);
    if (at == paths_.end()) return out;
    out = standing(path.back(), key, at->second.place);
    if (!out.empty()) return out;
    // A layer that two models hold stands where Keras met it first.
    for (const std::string& other : named_.at(at->second.name)) {
      const Layer& layer = paths_.at(other);
      if (layer.type != at->second.type || other == key) continue;
      TensorList there = standing(layer.name, other, layer.place);
      if (there.empty()) continue;
      if (!out.empty())
        throw UnknownLayer{fmt::format("'{}', a layer whose name stands twice in nested models,",
                                       printable(layer.name))};
      out = std::move(there);
    }
    return out;
  }

 private:
  struct Layer {
    std::string name, type, place;
  };
  TensorList standing(const std::string& name, const std::string& key,
                      const std::string& place) const {
    TensorList out;
    std::vector<std::string> parts = {"/cell",           "/forward_layer/cell",
                                      "/forward_layer",  "/backward_layer/cell",
                                      "/backward_layer", "/layer",
                                      "/layer/cell",     "/query_dense",
                                      "/key_dense",      "/value_dense",
                                      "/output_dense",   "/_query_dense",
                                      "/_key_dense",     "/_value_dense",
                                      "/_output_dense"};
    // What a layer has of its own comes first, but behind that of a layer that it stands around.
    parts.insert(around_.contains(key) ? parts.end() : parts.begin(), "");
    if (const auto own = cells_.find(key); own != cells_.end()) parts = own->second;
    for (const std::string& part : parts) {
      const auto vars = file_.find(root_, place + part + "/vars");
      if (!vars || !vars->is_group) continue;
      for (std::size_t i = 0; i < vars->children.size(); ++i)
        out.push_back({name + part + "/" + std::to_string(i),
                       file_.read(file_.child(*vars, std::to_string(i)))});
    }
    return out;
  }
  void number(const json& model, const std::string& prefix, const std::string& key, int depth) {
    if (depth > kMaxNesting) throw bad_input("models nest deeper than {} levels", kMaxNesting);
    std::map<std::string, int> used;
    // Keras 2.12 and 2.13 go through another list, in which what has weights stands twice.
    const bool twice = file_.find(root_, prefix + "_layer_checkpoint_dependencies").has_value();
    const std::string folder = prefix + (twice ? "_layer_checkpoint_dependencies/" : "layers/");
    const json& all = json_member(model, "config");
    for (const json& layer : all.is_array() ? all : json_array(all, "layers")) {
      const std::string type = json_string(layer, "class_name");
      const json& config = json_member(layer, "config");
      const std::string name = name_of(layer);
      std::string place = snake_case(type);
      const int n = used[place];
      used[place] += twice && has_weights(layer) ? 2 : 1;
      if (n > 0) place += "_" + std::to_string(n);
      std::string full = folder + place;
      // Later versions of Keras 3 write the layer's own name.
      if (!file_.find(root_, full) && file_.find(root_, folder + name)) full = folder + name;
      const std::string at = key + "/" + name;
      paths_[at] = {name, type, full};
      named_[name].push_back(at);
      if (config.contains("layers")) number(layer, full + "/", at, depth + 1);
      if (type == "SpectralNormalization") around_.insert(at);
      if (type == "RNN") number_cells(config, at, "");
      if (type == "Bidirectional" &&
          json_string(json_member(config, "layer"), "class_name") == "RNN")
        for (const char* way : {"/forward_layer", "/backward_layer"})
          number_cells(json_member(json_member(config, "layer"), "config"), at, way);
      if (type != "TimeDistributed") continue;
      const json& inner = json_member(config, "layer");
      if (!json_member(inner, "config").contains("layers")) continue;
      number(inner, full + "/layer/", at + "/" + name_of(inner), depth + 1);
    }
  }
  static std::string name_of(const json& layer) {
    const json& config = json_member(layer, "config");
    return config.contains("name") && config["name"].is_string() ? config["name"].get<std::string>()
                                                                 : json_string(layer, "class_name");
  }
  // Stacked cells are numbered as layers are.
  void number_cells(const json& config, const std::string& key, const std::string& way) {
    const json& cell = json_member(config, "cell");
    if (json_string(cell, "class_name") != "StackedRNNCells") return;
    std::map<std::string, int> used;
    for (const json& one : json_array(json_member(cell, "config"), "cells")) {
      std::string place = snake_case(json_string(one, "class_name"));
      if (const int n = used[place]++; n > 0) place += "_" + std::to_string(n);
      cells_[key].push_back(way + "/cell/cells/" + place);
    }
  }
  const Hdf5File& file_;
  Hdf5Object root_;
  std::map<std::string, Layer> paths_;
  std::map<std::string, std::vector<std::string>> named_;  // the paths of layers of one name
  std::map<std::string, std::vector<std::string>> cells_;  // where stacked cells stand
  std::set<std::string> around_;                           // layers around a layer
};

}  // namespace

bool has_weights(const json& layer) {
  const std::string type = json_string(layer, "class_name");
  const json& config = json_member(layer, "config");
  const auto set = [&](const char* key) { return config.contains(key) && config[key] == true; };
  if (config.contains("layers"))
    return std::ranges::any_of(json_array(config, "layers"), has_weights);
  if (config.contains("layer") && config["layer"].is_object()) return has_weights(config["layer"]);
  if (type == "LayerNormalization") return set("scale") || set("center");
  if (type == "Attention") return set("use_scale");
  if (type == "Normalization") return !config.contains("mean") || config["mean"].is_null();
  for (const std::string_view kind : {"Max", "Average", "Global", "ZeroPadding", "Cropping",
                                      "UpSampling", "Random", "TFOp", "Slicing"})
    if (type.starts_with(kind)) return false;
  for (const std::string_view kind : {"Activation",
                                      "Flatten",
                                      "Reshape",
                                      "Permute",
                                      "RepeatVector",
                                      "Softmax",
                                      "ReLU",
                                      "LeakyReLU",
                                      "ELU",
                                      "ThresholdedReLU",
                                      "Lambda",
                                      "Masking",
                                      "Rescaling",
                                      "Resizing",
                                      "CenterCrop",
                                      "CategoryEncoding",
                                      "UnitNormalization",
                                      "Add",
                                      "Subtract",
                                      "Multiply",
                                      "Minimum",
                                      "Concatenate",
                                      "Dot"})
    if (type == kind) return false;
  return !is_identity(type);
}

WeightsOf h5_weights(const Hdf5File& file, Hdf5Object group, const json& model) {
  return [weights = H5Weights(file, std::move(group), model)](
             const std::vector<std::string>& path) { return weights.of(path); };
}

WeightsOf v3_weights(const Hdf5File& file, const json& model) {
  return [weights = std::make_shared<V3Weights>(file, model)](
             const std::vector<std::string>& path) { return weights->of(path); };
}

}  // namespace etalon::keras_format
