#include "importers/formats/neutral.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/core/error.h"
#include "engine/core/file.h"
#include "engine/ops/control.h"
#include "importers/containers/bytes.h"
#include "importers/containers/json.h"
#include "importers/formats/check.h"

namespace etalon {
namespace {

using nlohmann::json;

json float_to_json(float value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return static_cast<double>(value);
}

float float_from_json(const json& value, std::string_view what) {
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    if (text == "nan") return std::numeric_limits<float>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<float>::infinity();
    if (text == "-inf") return -std::numeric_limits<float>::infinity();
  }
  if (!value.is_number())
    throw bad_input("{} must be a number, \"inf\", \"-inf\" or \"nan\"", what);
  const auto wide = value.get<double>();
  if (std::abs(wide) > static_cast<double>(std::numeric_limits<float>::max()))
    throw bad_input("{} = {} is beyond f32", what, wide);
  return static_cast<float>(wide);
}

class Writer final : public ParamVisitor {
 public:
  void field(std::string_view name, std::int64_t& v) override { put(name, v); }
  void field(std::string_view name, float& v) override { put(name, float_to_json(v)); }
  void field(std::string_view name, bool& v) override { put(name, v); }
  void field(std::string_view name, std::string& v) override { put(name, v); }
  void field(std::string_view name, Ints& v) override { put(name, v); }
  void field(std::string_view name, std::vector<float>& v) override {
    json list = json::array();
    for (const float f : v) list.push_back(float_to_json(f));
    put(name, std::move(list));
  }
  void field(std::string_view name, std::vector<std::string>& v) override { put(name, v); }
  json out = json::object();

 private:
  void put(std::string_view name, json value) { out[std::string(name)] = std::move(value); }
};

class Reader final : public ParamVisitor {
 public:
  explicit Reader(const json& in) : in_(in) {}
  void field(std::string_view name, std::int64_t& v) override {
    if (const json* j = take(name)) v = json_integer(*j, name);
  }
  void field(std::string_view name, float& v) override {
    if (const json* j = take(name)) v = float_from_json(*j, name);
  }
  void field(std::string_view name, bool& v) override {
    if (const json* j = take(name)) {
      if (!j->is_boolean()) throw bad_input("parameter {} must be true or false", name);
      v = j->get<bool>();
    }
  }
  void field(std::string_view name, std::string& v) override {
    if (const json* j = take(name)) v = text(*j, name);
  }
  void field(std::string_view name, Ints& v) override {
    if (const json* j = list(name)) {
      v.clear();
      for (const json& e : *j) v.push_back(json_integer(e, name));
    }
  }
  void field(std::string_view name, std::vector<float>& v) override {
    if (const json* j = list(name)) {
      v.clear();
      for (const json& e : *j) v.push_back(float_from_json(e, name));
    }
  }
  void field(std::string_view name, std::vector<std::string>& v) override {
    if (const json* j = list(name)) {
      v.clear();
      for (const json& e : *j) v.push_back(text(e, name));
    }
  }
  void refuse_unknown() const {
    if (seen_ == in_.size()) return;
    for (const auto& [key, value] : in_.items())
      if (std::find(names_.begin(), names_.end(), key) == names_.end())
        throw bad_input("there is no parameter '{}'; the parameters are {}", printable(key),
                        names_.empty() ? "none" : fmt::format("{}", fmt::join(names_, ", ")));
  }

 private:
  const json* take(std::string_view name) {
    names_.emplace_back(name);
    const auto at = in_.find(std::string(name));
    if (at == in_.end()) return nullptr;
    ++seen_;
    return &*at;
  }
  const json* list(std::string_view name) {
    const json* j = take(name);
    if (j != nullptr && !j->is_array()) throw bad_input("parameter {} must be a list", name);
    return j;
  }
  static std::string text(const json& j, std::string_view name) {
    if (!j.is_string()) throw bad_input("parameter {} must be a text", name);
    return j.get<std::string>();
  }
  const json& in_;
  std::size_t seen_ = 0;
  std::vector<std::string> names_;
};

json declaration_to_json(const Graph& graph, const Declaration& d) {
  json out{{"name", graph.value_name(d.value)}, {"dtype", std::string(name(d.dtype))}};
  if (!d.ranked) {
    out["dims"] = nullptr;
    return out;
  }
  json dims = json::array();
  for (std::size_t i = 0; i < d.dims.size(); ++i) {
    if (d.dims[i] >= 0)
      dims.push_back(d.dims[i]);
    else if (i < d.dim_names.size() && !d.dim_names[i].empty())
      dims.push_back(d.dim_names[i]);
    else
      dims.push_back(nullptr);
  }
  out["dims"] = std::move(dims);
  return out;
}

ValueId value_of(Graph& graph, const std::string& value) {
  if (value.empty()) return kAbsent;
  const ValueId known = graph.find_value(value);
  return known != kAbsent ? known : graph.add_value(value);
}

Declaration declaration_from_json(Graph& graph, const json& in) {
  Declaration d;
  const std::string value = json_string(in, "name");
  const ErrorScope scope(fmt::format("value {}", printable(value)));
  if (value.empty()) throw bad_input("an input or output needs a name");
  d.value = value_of(graph, value);
  const std::string dtype = json_string(in, "dtype");
  const auto known = find_dtype(dtype);
  if (!known) throw bad_input("'{}' is no element type", printable(dtype));
  d.dtype = *known;
  const json& dims = json_member(in, "dims");
  d.ranked = !dims.is_null();
  if (!d.ranked) return d;
  if (!dims.is_array()) throw bad_input("dims must be a list or null");
  for (const json& e : dims) {
    const bool fixed = e.is_number();
    d.dims.push_back(fixed ? json_integer(e, "an extent") : -1);
    if (fixed && d.dims.back() < 0) throw bad_input("an extent is negative");
    if (!fixed && !e.is_string() && !e.is_null())
      throw bad_input("an extent must be a number, a name or null");
    d.dim_names.push_back(e.is_string() ? e.get<std::string>() : "");
  }
  return d;
}

std::vector<ValueId> values_from_json(Graph& graph, const json& list) {
  std::vector<ValueId> ids;
  for (const json& e : list) {
    if (!e.is_string()) throw bad_input("inputs and outputs are lists of names");
    ids.push_back(value_of(graph, e.get<std::string>()));
  }
  return ids;
}

// Weights of graphs inside nodes are named "<graph>:<name>" in the file; the outer graph has none.
using Weights = std::map<std::string, Tensor, std::less<>>;

std::shared_ptr<const Graph> inner_from_json(const json& in, const std::string& prefix,
                                             const Weights& weights);

Node node_from_json(Graph& graph, const json& in, const std::string& prefix,
                    const Weights& weights) {
  Node node;
  node.name = json_string(in, "name");
  const ErrorScope scope(fmt::format("node {}", printable(node.name)));
  const std::string op = json_string(in, "op");
  node.op = find_op(op);
  if (node.op == nullptr)
    throw bad_input("there is no op '{}'; 'etalon kernels' lists the ops", printable(op));
  node.params = params_from_json(
      *node.op, in.contains("params") ? in.at("params") : json(json::value_t::object));
  node.inputs = values_from_json(graph, json_array(in, "inputs"));
  node.outputs = values_from_json(graph, json_array(in, "outputs"));
  if (!in.contains("graphs")) return node;
  if (!is_control(*node.op)) throw bad_input("{} owns no graphs", op);
  for (const json& g : json_array(in, "graphs"))
    node.subgraphs.push_back(inner_from_json(
        g, fmt::format("{}{}.{}:", prefix, node.name, node.subgraphs.size()), weights));
  return node;
}

// parse_json bounds the depth.
std::shared_ptr<const Graph> inner_from_json(const json& in, const std::string& prefix,
                                             const Weights& weights) {
  auto graph = std::make_shared<Graph>();
  graph->name = json_string(in, "name");
  for (auto at = weights.lower_bound(prefix); at != weights.end() && at->first.starts_with(prefix);
       ++at) {
    const std::string name = at->first.substr(prefix.size());
    if (name.find(':') == std::string::npos)
      graph->initializers.emplace(graph->add_value(name), at->second.share());
  }
  for (const json& e : json_array(in, "inputs"))
    graph->inputs.push_back(declaration_from_json(*graph, e));
  for (const json& e : json_array(in, "nodes"))
    graph->nodes.push_back(node_from_json(*graph, e, prefix, weights));
  for (const json& e : json_array(in, "outputs"))
    graph->outputs.push_back(declaration_from_json(*graph, e));
  graph->finish();
  return graph;
}

std::string text_or_empty(const json& in, const char* key) {
  return in.contains(key) ? json_string(in, key) : "";
}

// Whether the graph that stands at `path` names `weights` as its own.
bool owns(const std::string& path, const std::filesystem::path& weights) {
  try {
    const Blob file = map_file(path);
    const json in = parse_json(file.text());
    return in.is_object() && in.contains("etalon_graph") &&
           text_or_empty(in, "weights") == weights.filename().string();
  } catch (const Error&) {
    return false;
  }
}

bool has_weights(const Graph& graph) {
  return !graph.initializers.empty() || std::ranges::any_of(graph.nodes, [](const Node& n) {
    return std::ranges::any_of(n.subgraphs, [](const auto& g) { return has_weights(*g); });
  });
}

Saved save(const Model& model, const std::string& path) {
  const std::filesystem::path weights =
      std::filesystem::path(path).replace_extension(".safetensors");
  const bool two = has_weights(*model.graph);
  if (two && std::filesystem::exists(weights) && !owns(path, weights))
    throw usage_error(
        "{}: its weights would go to {}, which is there and belongs to no graph of that name; "
        "choose another name",
        path, weights.string());
  save_neutral(model, path, weights.string());
  Saved saved{.files = {path}};
  if (two) saved.files.push_back(weights.string());
  return saved;
}

bool match(const FileView& file) {
  const std::string_view text = file.text();
  return text.starts_with('{') && text.find("\"etalon_graph\"") != std::string_view::npos;
}

}  // namespace

namespace {

void collect_weights(const Graph& graph, const std::string& prefix, TensorList& weights) {
  for (const auto& [id, tensor] : graph.initializers)
    weights.push_back({prefix + graph.value_name(id), tensor.share()});
  for (const Node& n : graph.nodes)
    for (std::size_t i = 0; i < n.subgraphs.size(); ++i)
      collect_weights(*n.subgraphs[i], fmt::format("{}{}.{}:", prefix, n.name, i), weights);
}

// Inputs, outputs and nodes, with the graphs that nodes own.
void put_graph(const Graph& graph, nlohmann::ordered_json& out) {
  const auto names = [&](const std::vector<ValueId>& ids) {
    json list = json::array();
    for (const ValueId v : ids) list.push_back(graph.value_name(v));
    return list;
  };
  for (const auto& [key, list] :
       {std::pair{"inputs", &graph.inputs}, {"outputs", &graph.outputs}}) {
    json declared = json::array();
    for (const Declaration& d : *list) declared.push_back(declaration_to_json(graph, d));
    out[key] = declared;
  }
  json nodes = json::array();
  for (const Node& n : graph.nodes) {
    json node{{"name", n.name},
              {"op", std::string(n.op->name)},
              {"params", params_to_json(n.params)},
              {"inputs", names(n.inputs)},
              {"outputs", names(n.outputs)}};
    for (const auto& g : n.subgraphs) {
      nlohmann::ordered_json inner{{"name", g->name}};
      put_graph(*g, inner);
      node["graphs"].push_back(json(inner));
    }
    nodes.push_back(std::move(node));
  }
  out["nodes"] = nodes;
}

}  // namespace

json params_to_json(const Params& params) {
  Writer writer;
  params.visit(writer);
  return std::move(writer.out);
}

Params params_from_json(const OpRow& op, const json& params) {
  if (!params.is_object()) throw bad_input("params must be a JSON object");
  Reader reader(params);
  Params out = op.defaults().edited(reader);
  reader.refuse_unknown();
  return out;
}

void save_neutral(const Model& model, const std::string& json_path,
                  const std::string& weights_path) {
  const Graph& graph = *model.graph;
  nlohmann::ordered_json out{{"etalon_graph", 1},        {"name", graph.name},
                             {"format", model.format},   {"producer", model.producer},
                             {"version", model.version}, {"notes", model.notes}};
  TensorList weights;
  collect_weights(graph, "", weights);
  if (!weights.empty()) out["weights"] = std::filesystem::path(weights_path).filename().string();
  put_graph(graph, out);
  std::string text;
  try {
    text = out.dump(1, ' ');
  } catch (const json::exception&) {
    throw usage_error("{}: a name in the graph is not UTF-8; rename it", json_path);
  }
  if (!weights.empty()) save_tensors(weights, weights_path);
  write_file(json_path, text + "\n");
}

Model open_neutral(const std::string& path, std::span<const std::string> with) {
  const Blob file = map_file(path);
  const ErrorScope scope(path);
  const json in = parse_json(file.text());
  if (json_integer(json_member(in, "etalon_graph"), "etalon_graph") != 1)
    throw bad_input("etalon_graph must be 1, the one version there is");
  Model model;
  model.path = path;
  model.format = text_or_empty(in, "format");
  model.producer = text_or_empty(in, "producer");
  model.version = text_or_empty(in, "version");
  if (in.contains("notes"))
    for (const json& note : json_array(in, "notes"))
      if (note.is_string()) model.notes.push_back(note.get<std::string>());
  Graph& graph = *model.graph;
  graph.name = text_or_empty(in, "name");
  Weights inner;
  if (in.contains("weights")) {
    const std::string weights =
        with.empty() ? resolve_inside(folder_of(path), json_string(in, "weights")) : with[0];
    for (NamedTensor& t : load_tensors(weights)) inner.emplace(t.name, std::move(t.tensor));
  }
  // A name with a colon may be the outer graph's own: it is a graph's inside only where a node of
  // that name owns one.
  std::set<std::string, std::less<>> prefixes;
  for (const json& e : json_array(in, "nodes"))
    if (e.contains("graphs"))
      for (std::size_t i = 0; i < json_array(e, "graphs").size(); ++i)
        prefixes.insert(fmt::format("{}.{}:", json_string(e, "name"), i));
  for (const auto& [name, tensor] : inner)
    if (std::ranges::none_of(prefixes, [&](const std::string& p) { return name.starts_with(p); }))
      graph.initializers.emplace(graph.add_value(name), tensor.share());
  for (const json& e : json_array(in, "inputs"))
    graph.inputs.push_back(declaration_from_json(graph, e));
  for (const json& e : json_array(in, "nodes"))
    graph.nodes.push_back(node_from_json(graph, e, "", inner));
  for (const json& e : json_array(in, "outputs"))
    graph.outputs.push_back(declaration_from_json(graph, e));
  finish_graph(graph);
  return model;
}

const FormatRow& neutral_format() {
  static const FormatRow row{.name = "neutral",
                             .endings = ".json",
                             .summary = "This project's graph JSON, weights beside it.",
                             .match = match,
                             .open = open_neutral,
                             .takes_more = true,
                             .save = save};
  return row;
}

}  // namespace etalon
