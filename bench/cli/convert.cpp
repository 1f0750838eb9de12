// etalon convert FILE -o OUT: the same tensors, and where the format holds one the same graph.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/model_args.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "engine/core/hash.h"
#include "importers/containers/bytes.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

struct Args {
  ModelArgs model;
  std::string out;
};

bool holds_networks(const std::string& path) {
  return std::ranges::any_of(formats(), [&](const FormatRow& row) {
    return row.save != nullptr && has_ending(path, row.endings);
  });
}

int convert(Args& args, const Globals& g) {
  check_saving(args.out, false);
  const Model model = open_model_args(args.model);
  const Saved saved = save_model(model, args.out);
  std::string files;
  for (const std::string& file : saved.files) files += (files.empty() ? "" : " and ") + file;
  const std::size_t nodes = model.graph->nodes.size();
  const bool whole = holds_networks(args.out);
  fmt::print("{}: {}{} tensors\n", files, whole ? fmt::format("{} nodes, ", nodes) : "",
             model.graph->initializers.size());
  if (!whole && nodes > 0)
    fmt::print("  The network's {} nodes are not in it: the format holds tensors.\n", nodes);
  for (const std::string& note : model.notes) fmt::print("  {}\n", visible(note));
  for (const std::string& note : saved.notes) fmt::print("  {}\n", visible(note));
  if (!g.json_path.empty()) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    record["convert"] = {{"from", args.model.path},
                         {"to", args.out},
                         {"files", saved.files},
                         {"notes", saved.notes}};
    if (!args.model.placed.empty()) record["convert"]["placed"] = placement_json(args.model);
    for (const auto& [id, tensor] : model.graph->initializers)
      record["convert"]["tensors"].push_back({{"name", model.graph->value_name(id)},
                                              {"type", to_string(tensor.type())},
                                              {"hash", to_string(hash_tensor(tensor))}});
    write_record(g.json_path, record);
  }
  return 0;
}

}  // namespace

Action convert_command(Options& o) {
  auto args = std::make_shared<Args>();
  model_options(o, "FILE", fmt::format("{}, or a file of tensors", kModelWord), args->model)
      .value("-o,--output", args->out, "OUT",
             "What to write; its ending names the format: .onnx, .safetensors, .npz, .npy, .json",
             true);
  return [args](const Globals& g) { return convert(*args, g); };
}

}  // namespace etalon::cli
