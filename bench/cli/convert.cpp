// etalon convert FILE -o OUT: the same tensors, and where the format holds one the same graph.
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/report/record.h"
#include "engine/core/hash.h"
#include "importers/arch.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

struct Args {
  std::string path, out, arch;
  std::vector<std::string> with;
};

int convert(const Args& args, const Globals& g) {
  std::vector<Placement> placed;
  const Model model = args.arch.empty() ? open_model(args.path, args.with)
                                        : open_with_arch(args.path, args.with, args.arch, placed);
  if (!placed.empty()) {
    Table table({{"weight"}, {"tensor"}, {"found by"}});
    for (const Placement& p : placed) table.row({p.weight, p.tensor, p.by});
    table.print();
  }
  save_model(model, args.out);
  fmt::print("{}: {} nodes, {} tensors\n", args.out, model.graph->nodes.size(),
             model.graph->initializers.size());
  if (!g.json_path.empty()) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    record["convert"] = {{"from", args.path}, {"to", args.out}};
    for (const Placement& p : placed)
      record["convert"]["placed"].push_back(
          {{"weight", p.weight}, {"tensor", p.tensor}, {"by", p.by}});
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
  o.word("FILE", args->path, fmt::format("{}, or a file of tensors", kModelWord))
      .value("-o,--output", args->out, "OUT",
             "What to write; its ending names the format: .onnx, .safetensors, .npz, .npy, .json",
             true)
      .value("--arch", args->arch, "NAME|GRAPH",
             "The network that weights without one belong to: model:NAME or a graph's file")
      .repeated("--with", args->with, "FILE", "A further file of the same model");
  return [args](const Globals& g) { return convert(*args, g); };
}

}  // namespace etalon::cli
