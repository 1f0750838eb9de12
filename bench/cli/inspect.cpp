// etalon inspect FILE: what a file holds, without running it.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/model_args.h"
#include "bench/cli/model_text.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "bench/report/record_list.h"
#include "engine/core/hash.h"
#include "importers/importers.h"

namespace etalon::cli {

std::string declaration_text(const Declaration& d) {
  std::string text(name(d.dtype));
  if (!d.ranked) return text + "[?]";
  text += "[";
  for (std::size_t i = 0; i < d.dims.size(); ++i) {
    if (i) text += ",";
    const bool named = i < d.dim_names.size() && !d.dim_names[i].empty();
    text += d.dims[i] >= 0 ? fmt::to_string(d.dims[i]) : named ? d.dim_names[i] : "?";
  }
  return text + "]";
}

namespace {

struct Args {
  ModelArgs model;
  bool nodes = false, tensors = false, hashes = false;
};

// Weights of more stay on the disk: a look at a file takes as long as its description is long.
constexpr std::uint64_t kHashedBytes = 128'000'000;

std::string joined(const Graph& graph, const std::vector<ValueId>& values) {
  std::string text;
  for (const ValueId v : values)
    text += (text.empty() ? "" : ", ") + (v == kAbsent ? std::string("-") : graph.value_name(v));
  return text;
}

nlohmann::json declarations(const Graph& graph, const std::vector<Declaration>& list) {
  nlohmann::json out = nlohmann::json::array();
  for (const Declaration& d : list)
    out.push_back({{"name", graph.value_name(d.value)},
                   {"dtype", name(d.dtype)},
                   {"type", declaration_text(d)},
                   {"dims", d.dims}});
  return out;
}

int inspect(Args& args, const Globals& g) {
  const Model model = open_model_args(args.model);
  const Graph& graph = *model.graph;
  const bool as_json = !g.json_path.empty();
  nlohmann::json record = base_record(g.command_line, g.isa);
  nlohmann::json& out = record["inspect"];
  out = {{"path", args.model.path},
         {"format", model.format},
         {"producer", model.producer},
         {"version", model.version},
         {"notes", model.notes},
         {"name", graph.name},
         {"inputs", declarations(graph, graph.inputs)},
         {"outputs", declarations(graph, graph.outputs)}};
  if (!args.model.placed.empty()) out["placed"] = placement_json(args.model);

  fmt::print("{}: {}{}{}\n", visible(args.model.path), visible(model.format),
             model.version.empty() ? "" : ", " + visible(model.version),
             model.producer.empty() ? "" : ", written by " + visible(model.producer));
  for (const std::string& note : model.notes) fmt::print("  {}\n", visible(note));

  RecordList node_list, tensor_list;
  if (!graph.nodes.empty()) {
    Table io({{""}, {""}, {""}});
    for (const Declaration& d : graph.inputs)
      io.row({"input", graph.value_name(d.value), declaration_text(d)});
    for (const Declaration& d : graph.outputs)
      io.row({"output", graph.value_name(d.value), declaration_text(d)});
    io.print();
    std::map<std::string_view, int> counts;
    for (const Node& node : graph.nodes) ++counts[node.op->name];
    std::string summary;
    for (const auto& [op, count] : counts)
      summary += fmt::format("{}{} {}", summary.empty() ? "" : ", ", count, op);
    fmt::print("\n{} nodes: {}\n", graph.nodes.size(), summary);
    Table nodes({{"node"}, {"op"}, {"inputs"}, {"outputs"}, {"parameters"}});
    const bool all = args.nodes || graph.nodes.size() <= 40;
    for (const Node& node : graph.nodes) {
      if (!all && !as_json) break;
      const std::string params = to_string(node.params), in = joined(graph, node.inputs),
                        made = joined(graph, node.outputs);
      if (all) nodes.row({node.name, std::string(node.op->name), in, made, params});
      if (as_json)
        node_list.add({{"inputs", in},
                       {"name", node.name},
                       {"op", node.op->name},
                       {"outputs", made},
                       {"params", params}});
    }
    if (all)
      nodes.print();
    else
      fmt::print("(--nodes lists them)\n");
  }

  Table tensors({{"tensor"}, {"type"}, {"bytes", Table::Align::right}, {"hash"}});
  std::uint64_t bytes = 0, elements = 0;
  for (const auto& [id, tensor] : graph.initializers) {
    bytes += tensor.size_bytes();
    elements += static_cast<std::uint64_t>(tensor.numel());
  }
  const bool hashed = args.hashes || bytes <= kHashedBytes,
             listed = args.tensors || graph.initializers.size() <= 40;
  HashStream all;
  for (const auto& [id, tensor] : graph.initializers) {
    if (hashed) all.update(tensor);
    if (!listed && !as_json) continue;
    const std::string hash = hashed ? to_string(hash_tensor(tensor)) : "-";
    const std::string& tensor_name = graph.value_name(id);
    const std::string type = to_string(tensor.type());
    if (listed) tensors.row({tensor_name, type, human_bytes(tensor.size_bytes()), hash});
    const std::string_view dtype = name(tensor.dtype());
    if (as_json && hashed)
      tensor_list.add({{"dtype", dtype}, {"hash", hash}, {"name", tensor_name}, {"type", type}});
    else if (as_json)
      tensor_list.add({{"dtype", dtype}, {"name", tensor_name}, {"type", type}});
  }
  out["weights"] = {
      {"tensors", graph.initializers.size()}, {"elements", elements}, {"bytes", bytes}};
  fmt::print("\n{} tensors, {} elements, {}", graph.initializers.size(), elements,
             human_bytes(bytes));
  if (hashed) {
    const std::string hash = to_string(all.digest());
    fmt::print(", hash of all {}\n", hash);
    out["weights"]["hash"] = hash;
  } else {
    fmt::print("; not read (--hashes reads and hashes more than {})\n", human_bytes(kHashedBytes));
  }
  if (listed)
    tensors.print();
  else
    fmt::print("(--tensors lists them)\n");
  if (as_json)
    write_record(g.json_path, std::move(record), "inspect",
                 {{"nodes", &node_list}, {"tensors", &tensor_list}});
  return 0;
}

}  // namespace

Action inspect_command(Options& o) {
  auto args = std::make_shared<Args>();
  model_options(o, "FILE", fmt::format("{}, or a file of tensors", kModelWord), args->model)
      .flag("--nodes", args->nodes, "List all nodes of a large graph")
      .flag("--tensors", args->tensors, "List all tensors of a large file")
      .flag("--hashes", args->hashes, "Read and hash weights of more than 128 MB too");
  return [args](const Globals& g) { return inspect(*args, g); };
}

}  // namespace etalon::cli
