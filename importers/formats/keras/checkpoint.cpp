// The weights of a checkpoint (model.save_weights in TensorFlow's format): variables by their path
// through objects, where layer_with_weights-N is layer N of those that have any, and a variable is
// called as the layer calls it. Source: keras/engine/functional.py (2.13),
// _trackable_children.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/formats/keras/weights.h"

namespace etalon::keras_format {
namespace {

using nlohmann::json;

// Parts of a path in the order in which a layer has its weights.
constexpr std::array kOrder{"forward_layer",
                            "backward_layer",
                            "_query_dense",
                            "_key_dense",
                            "_value_dense",
                            "_output_dense",
                            "depthwise_kernel",
                            "pointwise_kernel",
                            "kernel",
                            "recurrent_kernel",
                            "gamma",
                            "beta",
                            "moving_mean",
                            "moving_variance",
                            "mean",
                            "variance",
                            "count",
                            "embeddings",
                            "alpha",
                            "scale",
                            "bias"};
constexpr std::string_view kEnd = "/.ATTRIBUTES/VARIABLE_VALUE";

std::vector<std::size_t> order_of(std::string_view path) {
  std::vector<std::size_t> out;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    const auto at = std::ranges::find(kOrder, part);
    if (at != kOrder.end())
      out.push_back(static_cast<std::size_t>(at - kOrder.begin()));
    else if (!part.empty() && part.size() < 4 && part.find_first_not_of("0123456789") == part.npos)
      out.push_back(static_cast<std::size_t>(std::stoul(std::string(part))));  // a cell of several
    else if (part != "cell" && part != "cells" && part != "layer")
      throw UnknownLayer{"a checkpoint's variable '" + printable(part) + "'"};
  }
  return out;
}

class CheckpointWeights {
 public:
  CheckpointWeights(TensorList tensors, const json& model) {
    for (NamedTensor& t : tensors)
      if (t.name.ends_with(kEnd))
        tensors_.emplace(t.name.substr(0, t.name.size() - kEnd.size()), std::move(t.tensor));
    number(model, "", "", 0);
  }
  TensorList of(const std::vector<std::string>& path) const {
    std::string key;
    for (const std::string& p : path) key += "/" + p;
    TensorList out;
    const auto place = places_.find(key);
    if (place == places_.end()) return out;
    std::vector<std::pair<std::vector<std::size_t>, std::string>> found;
    const std::string front = place->second + "/";
    for (auto t = tensors_.lower_bound(front); t != tensors_.end() && t->first.starts_with(front);
         ++t)
      found.emplace_back(order_of(std::string_view(t->first).substr(front.size())), t->first);
    std::ranges::sort(found);
    for (const auto& [order, name] : found) out.push_back({name, tensors_.at(name).share()});
    if (out.empty())
      throw UnknownLayer{fmt::format("'{}', whose weights the checkpoint has under another layer,",
                                     printable(path.back()))};
    return out;
  }

 private:
  void number(const json& model, const std::string& front, const std::string& key, int depth) {
    if (depth > kMaxNesting) throw bad_input("models nest deeper than {} levels", kMaxNesting);
    const json& all = json_member(model, "config");
    std::size_t count = 0;
    for (const json& layer : all.is_array() ? all : json_array(all, "layers")) {
      if (!has_weights(layer)) continue;
      const json& config = json_member(layer, "config");
      const std::string name = config.contains("name") && config["name"].is_string()
                                   ? config["name"].get<std::string>()
                                   : json_string(layer, "class_name");
      const std::string place = fmt::format("{}layer_with_weights-{}", front, count++);
      places_[key + "/" + name] = place;
      if (config.contains("layers")) number(layer, place + "/", key + "/" + name, depth + 1);
      if (config.contains("layer") && config["layer"].is_object() &&
          config["layer"].contains("config") && config["layer"]["config"].contains("layers"))
        throw UnknownLayer{"TimeDistributed of a model, from a checkpoint"};
    }
    // One more would say that a layer was taken for one without weights.
    const std::string more = fmt::format("{}layer_with_weights-{}/", front, count);
    const auto next = tensors_.lower_bound(more);
    if (next != tensors_.end() && next->first.starts_with(more))
      throw UnknownLayer{
          fmt::format("a network of {} layers with weights, for a checkpoint of more,", count)};
  }
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> places_;
};

}  // namespace

WeightsOf checkpoint_weights(TensorList tensors, const json& model) {
  return [weights = std::make_shared<CheckpointWeights>(std::move(tensors), model)](
             const std::vector<std::string>& path) { return weights->of(path); };
}

}  // namespace etalon::keras_format
