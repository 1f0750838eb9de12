#include "bench/cli/bench_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/cli/bench_rows.h"
#include "bench/cli/terminal.h"
#include "bench/data.h"
#include "engine/core/error.h"
#include "engine/models/models.h"
#include "importers/importers.h"

namespace etalon::cli {
namespace {

nlohmann::json timing_json(const Timing& t) {
  return {{"median_s", t.median_s},
          {"spread", t.spread},
          {"repetitions", t.repetitions},
          {"samples", t.samples}};
}

NetworkBenchRow time_network(const std::string& file, const FileBenchOptions& args,
                             const NetworkBenchOptions& options, nlohmann::json& out) {
  const Model model = open_model(file);
  InputMap inputs;
  if (args.data.empty())
    inputs = random_inputs(model, args.batch, 0);
  else if (model.graph->inputs.size() == 1)
    inputs.emplace(model.graph->value_name(model.graph->inputs[0].value),
                   std::move(load_dataset(args.data, args.samples).images));
  else
    throw usage_error("--data serves a network of one input, this one has {}",
                      model.graph->inputs.size());
  out["contract"] = to_string(options.contract);
  for (const auto& [name, tensor] : inputs) out["inputs"][name] = to_string(tensor.type());
  return bench_network(model, inputs, options);
}

NetworkBenchRow time_import(const std::string& file, const NetworkBenchOptions& options,
                            nlohmann::json& out) {
  if (!built_model_name(file).empty())
    throw usage_error(
        "--import times the opening of a file, and {} is none; 'etalon convert {} -o "
        "FILE.onnx' makes one",
        file, file);
  out["bytes"] = std::filesystem::file_size(file);
  return bench_import(file, options);
}

}  // namespace

void bench_files(const std::vector<std::string>& files, const FileBenchOptions& args,
                 nlohmann::json& record) {
  const NetworkBenchOptions& options = args.network;
  std::map<std::string, Ratios> ratios;
  Table table({{"network"},
               {"by"},
               {"version"},
               {"time", Table::Align::right},
               {"ratio", Table::Align::right},
               {"spread", Table::Align::right},
               {""}});
  for (const std::string& file : files) {
    const std::string stem = std::filesystem::path(file).filename().string();
    nlohmann::json out = {{"suite", args.import ? "import" : "network"},
                          {"op", args.import ? "import" : "network"},
                          {"shape", stem},
                          {"threads", options.threads}};
    const NetworkBenchRow row =
        args.import ? time_import(file, options, out) : time_network(file, args, options, out);
    out["hash"] = row.ours.hash;
    if (options.device == Device::cuda && !args.import) out["device"] = "cuda";
    out.update(timing_json(row.ours.timing));
    // Of an import: the growth of resident memory at its highest.
    const auto memory = [&](const NetworkTime& t, nlohmann::json& to) -> std::string {
      if (t.peak_bytes < 0) return "";
      to["peak_bytes"] = t.peak_bytes;
      return fmt::format("memory {:.0f} MB", static_cast<double>(t.peak_bytes) / 1e6);
    };
    table.row({stem, row.ours.name, "", human_seconds(row.ours.timing.median_s), "",
               fmt::format("{:.0f} %", 100 * row.ours.timing.spread), memory(row.ours, out)});
    for (const NetworkTime& peer : row.vs) {
      nlohmann::json theirs = {{"version", peer.version}, {"status", peer.status}};
      if (peer.status == "ok") {
        const double ratio = row.ours.timing.median_s / peer.timing.median_s;
        ratios[peer.name].add(ratio, stem);
        theirs.update(timing_json(peer.timing));
        theirs["ratio"] = ratio;
        table.row({"", peer.name, peer.version, human_seconds(peer.timing.median_s),
                   ratio_text(ratio), fmt::format("{:.0f} %", 100 * peer.timing.spread),
                   memory(peer, theirs)});
      } else {
        theirs["reason"] = peer.reason;
        table.row({"", peer.name, peer.version, "-", "-", "", peer.reason});
      }
      out["vs"][peer.name] = std::move(theirs);
    }
    record["rows"].push_back(std::move(out));
  }
  if (table.rows() > 0) table.print();
  for (const auto& [peer, r] : ratios) record["summary"][peer] = r.json();
}

}  // namespace etalon::cli
