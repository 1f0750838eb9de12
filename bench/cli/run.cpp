// etalon run MODEL: outputs under a contract, and their hashes.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/cli.h"
#include "bench/cli/model_args.h"
#include "bench/cli/model_text.h"
#include "bench/cli/terminal.h"
#include "bench/data.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/graph/executor.h"
#include "engine/models/models.h"
#include "importers/importers.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

struct Args {
  ModelArgs model;
  std::string out, contract = "seq", data, kernels;
  std::string random;  // a seed
  std::vector<std::string> inputs;
  std::int64_t batch = 1, samples = 0;
  std::int64_t memory_limit = RunOptions().memory_limit_bytes;
  bool nodes = false, times = false;
};

// --batch has a meaning only where a first extent is free.
bool takes_batch(const Model& model) {
  return !built_model_name(model.path).empty() ||
         std::ranges::any_of(model.graph->inputs, [](const Declaration& d) {
           return d.ranked && !d.dims.empty() && d.dims[0] < 0;
         });
}

InputMap gather_inputs(const Args& args, const Model& model) {
  const Graph& graph = *model.graph;
  const int ways = !args.inputs.empty() + !args.data.empty() + !args.random.empty();
  if (ways > 1) throw usage_error("give one of --input, --data and --random");
  if (args.samples != 0 && args.data.empty())
    throw usage_error("--samples {} belongs to --data", args.samples);
  if (args.batch != 1 && (args.random.empty() || !takes_batch(model)))
    throw usage_error("--batch {} belongs to --random, and to inputs whose first extent is free",
                      args.batch);
  if (!args.data.empty()) {
    if (graph.inputs.size() != 1)
      throw usage_error("--data serves a network of one input, this one has {}",
                        graph.inputs.size());
    InputMap inputs;
    inputs.emplace(graph.value_name(graph.inputs[0].value),
                   std::move(load_dataset(args.data, args.samples).images));
    return inputs;
  }
  if (!args.random.empty()) return random_inputs(model, args.batch, seed_of(args.random));
  if (args.inputs.empty() && !graph.inputs.empty()) {
    std::string wanted;
    for (const Declaration& d : graph.inputs)
      wanted += fmt::format("{}{} {}", wanted.empty() ? "" : ", ",
                            visible(graph.value_name(d.value)), visible(declaration_text(d)));
    throw usage_error("the network wants {}; give --input FILE, --data mnist or --random SEED",
                      wanted);
  }
  return read_inputs(graph, args.inputs);
}

int run(Args& args, const Globals& g) {
  if (!args.out.empty()) check_saving(args.out, true);
  const Model model = open_model_args(args.model, args.inputs);
  if (model.graph->nodes.empty() && model.graph->outputs.empty())
    throw bad_input(
        "{}: holds tensors and no network; 'etalon inspect' lists them, --arch names "
        "their network",
        args.model.path);
  if (args.out.ends_with(".npy") && model.graph->outputs.size() != 1)
    throw usage_error("-o {}: an npy file holds one array, the network gives {}; use .npz",
                      args.out, model.graph->outputs.size());
  RunOptions options;
  options.contract = Contract::parse(args.contract);
  options.device = g.device;
  options.isa = g.isa;
  options.threads = g.threads;
  options.kernels = args.kernels;
  if (args.memory_limit < 1) throw usage_error("--memory-limit must be at least 1");
  options.memory_limit_bytes = args.memory_limit;
  options.hash_nodes = args.nodes || (!g.json_path.empty() && !args.times);
  const InputMap inputs = gather_inputs(args, model);

  Trace trace;
  {
    Progress progress("running", static_cast<std::int64_t>(model.graph->nodes.size()));
    options.progress = [&progress](std::size_t done, std::size_t) {
      progress.update(static_cast<std::int64_t>(done));
    };
    // The first run plans and packs weights; times are those of every later one.
    if (g.device == Device::cuda) {
      cuda::DeviceExecutor executor(model.graph, all_kernels(), options);
      if (args.times) executor.run(inputs);
      trace = executor.run(inputs, args.times);
    } else {
      Executor executor(model.graph, all_kernels(), options);
      if (args.times) executor.run(inputs);
      trace = executor.run(inputs);
    }
  }

  fmt::print("{}\n", to_string(options.contract));
  if (args.nodes || args.times) {
    Table table({{"node"},
                 {"op"},
                 {"kernel"},
                 {"time", Table::Align::right},
                 {args.nodes ? "hash" : "runs in the kernel of"}});
    for (const NodeRecord& n : trace.nodes)
      table.row({n.name, std::string(n.op), std::string(n.kernel),
                 n.fused_into.empty() ? human_seconds(n.seconds) : "",
                 n.hashes.empty() ? n.fused_into : to_string(n.hashes[0])});
    table.print();
    fmt::print("\n");
  }
  Table table({{"output"}, {"type"}, {"hash"}});
  nlohmann::json record = base_record(g.command_line, g.isa);
  record["contract"] = to_string(options.contract);
  record["device"] = g.device == Device::cuda ? "cuda" : "cpu";
  record["threads"] = g.threads;
  if (!args.model.placed.empty()) record["placed"] = placement_json(args.model);
  record["seconds"] = trace.seconds;
  for (const auto& [name, tensor] : trace.outputs) {
    const std::string hash = to_string(hash_tensor(tensor));
    table.row({name, to_string(tensor.type()), hash});
    const auto dims = tensor.shape().dims();
    record["outputs"].push_back({{"name", name},
                                 {"dtype", etalon::name(tensor.dtype())},
                                 {"shape", std::vector<std::int64_t>(dims.begin(), dims.end())},
                                 {"hash", hash}});
  }
  table.print();
  fmt::print("{} nodes in {}\n", trace.nodes.size(), human_seconds(trace.seconds));
  for (const NodeRecord& n : trace.nodes) {
    nlohmann::json row = {{"name", n.name},
                          {"op", n.op},
                          {"kernel", n.kernel},
                          {"contract", to_string(options.contract)},
                          {"seconds", n.seconds}};
    if (!n.hashes.empty()) row["hash"] = to_string(n.hashes[0]);
    if (!n.fused_into.empty()) row["fused_into"] = n.fused_into;
    record["nodes"].push_back(std::move(row));
  }
  if (!args.out.empty()) {
    TensorList list;
    for (const auto& [name, tensor] : trace.outputs) list.push_back({name, tensor.share()});
    save_tensors(list, args.out);
    fmt::print("wrote {}\n", args.out);
  }
  if (!g.json_path.empty()) write_record(g.json_path, record);
  return 0;
}

}  // namespace

Action run_command(Options& o) {
  auto args = std::make_shared<Args>();
  model_options(o, "MODEL", kModelWord, args->model)
      .repeated("-i,--input", args->inputs, "[NAME=]FILE", "Input arrays: npy, npz or safetensors")
      .value("--data", args->data, "NAME", "A data set that ships with the program: mnist")
      .value("--samples", args->samples, "Use this many samples of --data (default: all)")
      .value("--random", args->random, "SEED", "Uniform noise with this seed as input")
      .value("--batch", args->batch, "Batch size for --random")
      .value("-c,--contract", args->contract, "C", "The numeric contract")
      .value("--kernels", args->kernels, "NAME", "Use only kernels of this name or prefix")
      .value("-o,--output", args->out, "FILE", "Write the outputs: npy, npz or safetensors")
      .value("--memory-limit", args->memory_limit, "Bytes that live tensors may have together")
      .flag("--nodes", args->nodes, "Show every node's kernel, time and hash, each run by itself")
      .flag("--times", args->times,
            "Show every node's kernel and time in a second run, as it is without hashes: fused");
  return [args](const Globals& g) { return run(*args, g); };
}

}  // namespace etalon::cli
