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
  H5Weights(const Hdf5File& file, Hdf5Object group) : file_(file), group_(std::move(group)) {}
  TensorList of(const std::vector<std::string>& path) const {
    // A nested model's weights all stand in the group of the outermost one, by their layer's name.
    auto outer = file_.find(group_, path.front());
    // A Sequential inside of another has no name in Keras 1: it is that which holds the layer.
    if (!outer && path.size() > 1) outer = holder_of(path.back());
    TensorList out;
    if (!outer) return out;
    std::string before;
    std::vector<std::string> names;
    if (const Hdf5Value* v = outer->attribute("weight_names")) names = v->texts;
    for (int part = 0;; ++part) {  // long lists are cut in pieces
      const Hdf5Value* v = outer->attribute("weight_names" + std::to_string(part));
      if (v == nullptr) break;
      names.insert(names.end(), v->texts.begin(), v->texts.end());
    }
    for (const std::string& name : names) {
      if (path.size() > 1) {
        const std::string inner = path.back() + "/";
        std::size_t at = belongs(name, path.back()) ? 0 : name.find("/" + inner);
        if (at == std::string::npos) continue;
        // Two models may hold layers of one name.
        if (out.empty()) before = name.substr(0, at);
        if (name.substr(0, at) != before)
          throw UnknownLayer{fmt::format("'{}', a layer whose name stands twice in nested models,",
                                         printable(path.back()))};
      }
      out.push_back({name, file_.read(file_.child(*outer, name))});
    }
    return out;
  }

 private:
  // "dense_1/kernel:0", up to Keras 1 "dense_1_W:0".
  static bool belongs(const std::string& weight, const std::string& layer) {
    return weight.starts_with(layer + "/") || weight.starts_with(layer + "_");
  }
  std::optional<Hdf5Object> holder_of(const std::string& layer) const {
    std::optional<Hdf5Object> found;
    for (const auto& [name, where] : group_.children) {
      const auto one = file_.find(group_, name);
      const Hdf5Value* names = one ? one->attribute("weight_names") : nullptr;
      if (names == nullptr ||
          std::ranges::none_of(names->texts, [&](const auto& w) { return belongs(w, layer); }))
        continue;
      if (found)
        throw UnknownLayer{fmt::format("'{}', a layer that two models hold,", printable(layer))};
      found = one;
    }
    return found;
  }
  const Hdf5File& file_;
  Hdf5Object group_;
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
      const auto vars = file_.find(root_, at->second + part + "/vars");
      if (!vars || !vars->is_group) continue;
      for (std::size_t i = 0; i < vars->children.size(); ++i)
        out.push_back({path.back() + part + "/" + std::to_string(i),
                       file_.read(file_.child(*vars, std::to_string(i)))});
    }
    return out;
  }

 private:
  void number(const json& model, const std::string& prefix, const std::string& key, int depth) {
    if (depth > kMaxNesting) throw bad_input("models nest deeper than {} levels", kMaxNesting);
    std::map<std::string, int> used;
    for (const json& layer : json_array(json_member(model, "config"), "layers")) {
      const std::string type = json_string(layer, "class_name");
      const json& config = json_member(layer, "config");
      const std::string name = name_of(layer);
      std::string place = snake_case(type);
      if (const int n = used[place]++; n > 0) place += "_" + std::to_string(n);
      std::string full = prefix + "layers/" + place;
      // Later versions of Keras 3 write the layer's own name.
      if (!file_.find(root_, full) && file_.find(root_, prefix + "layers/" + name))
        full = prefix + "layers/" + name;
      paths_[key + "/" + name] = full;
      const std::string at = key + "/" + name;
      if (config.contains("layers")) number(layer, full + "/", at, depth + 1);
      if (type == "SpectralNormalization") around_.insert(at);
      if (type == "RNN") number_cells(config, at);
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
  void number_cells(const json& config, const std::string& key) {
    const json& cell = json_member(config, "cell");
    if (json_string(cell, "class_name") != "StackedRNNCells") return;
    std::map<std::string, int> used;
    for (const json& one : json_array(json_member(cell, "config"), "cells")) {
      std::string place = snake_case(json_string(one, "class_name"));
      if (const int n = used[place]++; n > 0) place += "_" + std::to_string(n);
      cells_[key].push_back("/cell/cells/" + place);
    }
  }
  const Hdf5File& file_;
  Hdf5Object root_;
  std::map<std::string, std::string> paths_;
  std::map<std::string, std::vector<std::string>> cells_;  // where stacked cells stand
  std::set<std::string> around_;                           // layers around a layer
};

}  // namespace

WeightsOf h5_weights(const Hdf5File& file, Hdf5Object group) {
  return [weights = H5Weights(file, std::move(group))](const std::vector<std::string>& path) {
    return weights.of(path);
  };
}

WeightsOf v3_weights(const Hdf5File& file, const json& model) {
  return [weights = std::make_shared<V3Weights>(file, model)](
             const std::vector<std::string>& path) { return weights->of(path); };
}

}  // namespace etalon::keras_format
