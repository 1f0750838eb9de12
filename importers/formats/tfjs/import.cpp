// model.json holds the graph (a GraphDef in JSON) and a manifest: groups of shards and the tensors
// that lie in them one after the other. A quantised tensor is stored as u8 or u16 with scale and
// min, value = q * scale + min in f64 rounded once (of i32 to the nearest), or as f16. A manifest
// alone (a JSON list) opens as tensors. Shards lie in the model's own folder. A layers model's
// graph is Keras' (importers/formats/keras). Source: the TensorFlow.js converter's description of
// the web format.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "engine/numerics/element.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/containers/pbjson.h"
#include "importers/formats/keras/model.h"
#include "importers/formats/tf/graph.h"
#include "importers/formats/tfjs.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace tfjs {
namespace {

using nlohmann::json;

DType dtype_of_word(const std::string& word) {
  if (word == "float32") return DType::f32;
  if (word == "float16") return DType::f16;
  if (word == "int32") return DType::i32;
  if (word == "uint8") return DType::u8;
  if (word == "uint16") return DType::u16;
  if (word == "bool") return DType::boolean;
  throw bad_input("element type '{}' (a string, complex) is not supported", printable(word));
}

Tensor take(const json& weight, const Blob& group, std::size_t& at, bool& quantised) {
  Ints dims;
  for (const json& d : json_array(weight, "shape")) dims.push_back(json_integer(d, "an extent"));
  const Shape shape(dims);
  const DType dtype = dtype_of_word(json_string(weight, "dtype"));
  DType stored = dtype;
  const bool packed = weight.contains("quantization");
  if (packed) stored = dtype_of_word(json_string(weight["quantization"], "dtype"));
  const std::size_t size = claimed_bytes({stored, shape});
  if (size > group.bytes.size() - at)
    throw bad_input("{} bytes of it lie in the shards, {} are needed; a shard is cut short",
                    group.bytes.size() - at, size);
  const Tensor raw =
      tensor_from_bytes({stored, shape}, {group.bytes.subspan(at, size), group.keeper});
  at += size;
  if (!packed) return raw.share();
  quantised = true;
  if (stored == DType::f16) return as_f32(raw);
  const json& q = weight["quantization"];
  if (!json_member(q, "scale").is_number() || !json_member(q, "min").is_number())
    throw bad_input("its scale and min must be numbers");
  // TensorFlow.js computes in JavaScript's numbers and rounds once.
  const double scale = q["scale"].get<double>(), min = q["min"].get<double>();
  const auto value = [&](std::int64_t i) { return load_as_double(raw, i) * scale + min; };
  if (dtype != DType::f32 && dtype != DType::i32)
    throw bad_input("quantised weights of type {} (f32 and i32 are known)", name(dtype));
  Tensor out = Tensor::uninitialized(dtype, shape);
  for (std::int64_t i = 0; i < shape.numel(); ++i) {
    if (dtype == DType::f32) {
      out.mutable_data<float>()[static_cast<std::size_t>(i)] = static_cast<float>(value(i));
      continue;
    }
    const double whole = std::floor(value(i) + 0.5);
    if (!(whole >= -0x1p31) || !(whole < 0x1p31))
      throw bad_input("element {} is {}, which is no 32-bit integer", i, whole);
    out.mutable_data<std::int32_t>()[static_cast<std::size_t>(i)] =
        static_cast<std::int32_t>(whole);
  }
  return out;
}

TensorList read_weights(const json& manifest, const std::string& folder, bool& quantised) {
  TensorList out;
  if (!manifest.is_array()) throw bad_input("the manifest of weights must be a list");
  std::set<std::string> names;
  std::size_t total = 0;
  for (const json& group : manifest) {
    std::vector<Blob> shards;
    std::size_t bytes = 0;
    for (const json& path : json_array(group, "paths")) {
      if (!path.is_string()) throw bad_input("a shard's path must be a text");
      shards.push_back(map_file(resolve_inside(folder, path.get<std::string>())));
      bytes += shards.back().bytes.size();
    }
    // One shard is read in place; several are put together. The same shard may not be asked for
    // more often than any model does.
    total += shards.size() > 1 ? bytes : 0;
    Blob whole;
    if (shards.size() > 1) MemoryBudget::charge(bytes);
    if (shards.size() == 1) {
      whole = shards[0];
    } else if (!shards.empty()) {
      if (shards.size() > 4096 || total > std::size_t{1} << 34) throw bad_input("too many shards");
      auto all = std::make_shared<std::string>();
      for (const Blob& s : shards) all->append(s.text());
      whole = {std::as_bytes(std::span(all->data(), all->size())), all};
    }
    std::size_t at = 0;
    for (const json& w : json_array(group, "weights")) {
      const std::string name = json_string(w, "name");
      const ErrorScope where(fmt::format("tensor {}", printable(name)));
      if (!names.insert(name).second) throw bad_input("stands twice in the manifest of weights");
      out.push_back({name, take(w, whole, at, quantised)});
    }
  }
  return out;
}

bool is_bytes(std::string_view type, std::string_view field) {
  return (type == "AttrValue" && field == "s") || (type == "ListValue" && field == "s") ||
         field == "tensor_content" || field == "string_val";
}

std::string text_at(const json& in, const char* key) {
  return in.contains(key) && in[key].is_string() ? in[key].get<std::string>() : std::string();
}

// Keras' layers, their weights called LAYER/WEIGHT.
Model open_layers(const std::string& path, const json& in, const json& config) {
  bool quantised = false;
  TensorList weights = read_weights(json_array(in, "weightsManifest"), folder_of(path), quantised);
  const auto of_layer = [&](const std::vector<std::string>& names) {
    TensorList out;
    for (const NamedTensor& t : weights) {
      const std::string layer = names.back() + "/";
      if (t.name.starts_with(layer) || t.name.find("/" + layer) != std::string::npos)
        out.push_back({t.name, t.tensor.share()});
    }
    return out;
  };
  try {
    GraphBuilder g(stem_of(path));
    if (quantised) g.note("quantised weights are read as q * scale + min, rounded once");
    // TensorFlow.js resizes by the corners of pixels, whatever Keras the layers came from.
    keras_format::build_model(g, config, {.half_pixels = false, .corners = true}, of_layer);
    return finish_model(g, path, "tfjs", text_at(in, "generatedBy"), text_at(in, "convertedBy"));
  } catch (const keras_format::UnknownLayer& unknown) {
    Model model;
    model.path = path;
    model.format = "tfjs";
    model.notes = {"Weights alone: " + printable(unknown.what) + " has no translation."};
    for (NamedTensor& t : weights)
      model.graph->initializers.emplace(model.graph->add_value(t.name), std::move(t.tensor));
    return model;
  }
}

Model open(const std::string& path, std::span<const std::string>) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const json in = parse_json(file.text());
  const std::string folder = folder_of(path);
  bool quantised = false;
  Model model;
  model.path = path;
  if (in.is_array()) {
    model.format = "tfjs-weights";
    for (NamedTensor& t : read_weights(in, folder, quantised))
      model.graph->initializers.emplace(model.graph->add_value(t.name), std::move(t.tensor));
    if (quantised)
      model.notes.emplace_back("quantised weights are read as q * scale + min, rounded once");
    return model;
  }
  const json& topology = json_member(in, "modelTopology");
  if (topology.is_object() &&
      (topology.contains("model_config") || topology.contains("class_name")))
    return open_layers(path, in,
                       topology.contains("model_config") ? topology["model_config"] : topology);
  std::map<std::string, Tensor> weights;
  for (NamedTensor& t : read_weights(json_array(in, "weightsManifest"), folder, quantised))
    weights.emplace(t.name, std::move(t.tensor));
  tf::GraphSource source;
  const std::string text = text_of_json(tf::schema().type("GraphDef"), topology, is_bytes);
  source.graph = PbMessage::from_text(tf::schema().type("GraphDef"), text);
  source.fill_budget = file.bytes.size() * 16 + (1 << 20);
  source.constant = [&](const std::string& name) {
    const auto at = weights.find(name);
    return at == weights.end() ? Tensor() : at->second.share();
  };
  source.variable = source.constant;
  // The signature of the original model, where the converter kept it.
  for (const char* key : {"signature", "userDefinedMetadata"}) {
    if (!in.contains(key) || !in[key].is_object()) continue;
    const json& s = in[key].contains("signature") ? in[key]["signature"] : in[key];
    if (!s.is_object() || !source.outputs.empty()) continue;
    for (const char* side : {"inputs", "outputs"}) {
      if (!s.contains(side) || !s[side].is_object()) continue;
      auto& ports = side[0] == 'i' ? source.inputs : source.outputs;
      for (const auto& [name, info] : s[side].items())
        if (info.is_object() && info.contains("name") && info["name"].is_string())
          ports.push_back({name, info["name"].get<std::string>(), 0, {}});
    }
  }
  // A name of the original graph that the conversion renamed: then the graph's own ends count.
  const auto stands = [&](const std::vector<tf::Port>& ports) {
    return std::ranges::all_of(ports, [&](const tf::Port& p) {
      const std::string node = p.tensor.substr(0, p.tensor.find(':'));
      for (const PbMessage& n : source.graph.messages("node"))
        if (n.text("name") == node) return true;
      return false;
    });
  };
  if (!stands(source.inputs) || !stands(source.outputs)) {
    source.inputs.clear();
    source.outputs.clear();
  }
  GraphBuilder g(stem_of(path));
  if (quantised) g.note("quantised weights are read as q * scale + min, rounded once");
  translate_graph(g, std::move(source));
  return finish_model(g, path, "tfjs", text_at(in, "generatedBy"), text_at(in, "convertedBy"));
}

}  // namespace
}  // namespace tfjs

const FormatRow& tfjs_format() {
  static const FormatRow row{.name = "tfjs",
                             .endings = "model.json",
                             .summary = "TensorFlow.js graph model, or a weights manifest.",
                             .match =
                                 [](const FileView& f) {
                                   const std::string_view t = f.text();
                                   if (f.is_folder || t.empty()) return false;
                                   if (t[0] == '[')
                                     return t.find("\"paths\"") != std::string_view::npos ||
                                            t.find("\"weights\"") != std::string_view::npos;
                                   return t[0] == '{' &&
                                          (t.find("\"modelTopology\"") != std::string_view::npos ||
                                           t.find("\"weightsManifest\"") != std::string_view::npos);
                                 },
                             .open = tfjs::open};
  return row;
}

}  // namespace etalon
