// etalon convert FILE -o OUT: the same tensors, and where the format holds one the same graph.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/model_args.h"
#include "bench/report/record.h"
#include "engine/core/hash.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

struct Args {
  ModelArgs model;
  std::string out;
};

int convert(Args& args, const Globals& g) {
  const Model model = open_model_args(args.model);
  save_model(model, args.out);
  fmt::print("{}: {} nodes, {} tensors\n", args.out, model.graph->nodes.size(),
             model.graph->initializers.size());
  if (!g.json_path.empty()) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    record["convert"] = {{"from", args.model.path}, {"to", args.out}};
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
