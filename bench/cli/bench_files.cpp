#include "bench/cli/bench_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "bench/cli/bench_rows.h"
#include "bench/cli/terminal.h"
#include "bench/data.h"
#include "bench/micro/machine_watch.h"
#include "bench/shell_word.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/models/models.h"
#include "importers/importers.h"
#include "kernels/backends/cuda/device.h"

namespace etalon::cli {
namespace {

nlohmann::json timing_json(const Timing& t) {
  return {{"median_s", t.median_s},
          {"spread", t.spread},
          {"repetitions", t.repetitions},
          {"samples", t.samples}};
}

struct NamedRow {
  std::string name;
  nlohmann::json record;
  NetworkBenchRow row;
  std::string file;
};

// The command that times this row alone; `what` are the options of its own.
std::string again_command(const std::string& file, const std::string& what,
                          const NetworkBenchOptions& options) {
  std::vector<std::string> vs;
  for (const RunnerTarget& target : options.vs) vs.push_back(target.text);
  return fmt::format("etalon bench {}{}{}{}", shell_word(file), what,
                     again_options(vs, options.threads, options.isa),
                     options.device == Device::cuda ? " --device cuda" : "");
}

std::vector<NamedRow> time_network(const std::string& file, const std::string& stem,
                                   const FileBenchOptions& args, LiveRunners& runners) {
  const NetworkBenchOptions& options = args.network;
  const Model model = open_model(file);
  std::vector<NamedRow> named;
  std::vector<InputMap> inputs;
  const auto add = [&](std::string name, const std::string& what, InputMap given) {
    NamedRow& row = named.emplace_back(std::move(name));
    row.record["contract"] = to_string(options.contract);
    row.record["again"] =
        again_command(file, what + " -c " + shell_word(short_name(options.contract)), options);
    for (const auto& [value, tensor] : given)
      row.record["inputs"][value] = to_string(tensor.type());
    inputs.push_back(std::move(given));
  };
  if (!args.data.empty()) {
    if (model.graph->inputs.size() != 1)
      throw usage_error("--data serves a network of one input, this one has {}",
                        model.graph->inputs.size());
    InputMap given;
    given.emplace(model.graph->value_name(model.graph->inputs[0].value),
                  std::move(load_dataset(args.data, args.samples).images));
    add(stem,
        " --data " + shell_word(args.data) +
            (args.samples > 0 ? fmt::format(" --samples {}", args.samples) : ""),
        std::move(given));
  } else {
    for (const std::int64_t batch : args.batches)
      add(args.batches.size() == 1 ? stem : fmt::format("{} batch {}", stem, batch),
          fmt::format(" --batch {}", batch), random_inputs(model, batch, 0));
  }
  std::vector<NetworkBenchRow> rows = bench_network(model, inputs, options, runners);
  for (std::size_t i = 0; i < rows.size(); ++i) named[i].row = std::move(rows[i]);
  return named;
}

std::vector<NamedRow> time_import(const std::string& file, const std::string& stem,
                                  const NetworkBenchOptions& options) {
  if (!built_model_name(file).empty())
    throw usage_error(
        "--import times the opening of a file, and {} is none; 'etalon convert {} -o "
        "FILE.onnx' makes one",
        file, file);
  std::vector<NamedRow> named;
  named.push_back({stem,
                   {{"bytes", std::filesystem::file_size(file)},
                    {"again", again_command(file, " --import", options)}},
                   bench_import(file, options)});
  return named;
}

}  // namespace

std::string file_row_name(const std::string& file, const std::vector<std::string>& files) {
  const auto name = std::filesystem::path(file).filename();
  const auto alike = std::ranges::count_if(files, [&](const std::string& other) {
    return other != file && std::filesystem::path(other).filename() == name;
  });
  return alike > 0 ? file : name.string();
}

bool bench_files(const std::vector<std::string>& files, const FileBenchOptions& args,
                 nlohmann::json& record) {
  const NetworkBenchOptions& options = args.network;
  const bool on_gpu = options.device == Device::cuda && !args.import;
  bool same_bits = true;
  std::map<std::string, Ratios> ratios;
  LiveRunners runners;
  Table table({{"network"},
               {"by"},
               {"version"},
               {"time", Table::Align::right},
               {"ratio", Table::Align::right},
               {"spread", Table::Align::right},
               {""}});
  const auto add = [&](NamedRow& named) {
    const NetworkBenchRow& row = named.row;
    nlohmann::json out = std::move(named.record);
    out.update({{"suite", args.import ? "import" : "network"},
                {"op", args.import ? "import" : "network"},
                {"shape", named.name},
                {"file", named.file},
                {"threads", options.threads},
                {"hash", row.ours.hash}});
    // Of an import: the growth of resident memory at its highest.
    const auto memory = [&](const NetworkTime& t, nlohmann::json& to) -> std::string {
      if (t.peak_bytes < 0) return "";
      to["peak_bytes"] = t.peak_bytes;
      return fmt::format("memory {:.0f} MB", static_cast<double>(t.peak_bytes) / 1e6);
    };
    std::string remark = memory(row.ours, out);
    if (on_gpu) {
      const bool same = row.ours.hash == row.ours.cpu_hash;
      out["device"] = "cuda";
      out["cpu_hash"] = row.ours.cpu_hash;
      remark = same ? "the CPU's bits" : "OTHER BITS than the CPU's";
      same_bits = same_bits && same;
    }
    out.update(timing_json(row.ours.timing));
    table.row({named.name, row.ours.name, "", human_seconds(row.ours.timing.median_s), "",
               fmt::format("{:.0f} %", 100 * row.ours.timing.spread), remark});
    for (const NetworkTime& peer : row.vs) {
      nlohmann::json theirs = {
          {"kind", "framework"}, {"version", peer.version}, {"status", peer.status}};
      if (!peer.versions.empty()) theirs["versions"] = peer.versions;
      if (peer.status == "ok") {
        const double ratio = row.ours.timing.median_s / peer.timing.median_s;
        ratios[peer.name].add(ratio, named.name);
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
  };
  std::vector<std::string> skipped;
  {
    Progress progress("timing", static_cast<std::int64_t>(files.size()));
    std::int64_t done = 0;
    for (const std::string& file : files) {
      const std::string stem = file_row_name(file, files);
      progress.update(done++, stem);
      try {
        check_interrupt();
        const MachineWatch watch;
        std::vector<NamedRow> rows = args.import ? time_import(file, stem, options)
                                                 : time_network(file, stem, args, runners);
        const MachineLoad load = watch.load();
        for (NamedRow& row : rows) {
          row.record["load"] = {{"others", load.others}, {"stolen", load.stolen}};
          row.file = file;
          add(row);
        }
      } catch (const Error& e) {
        if (args.alone) throw;
        if (e.kind() == ErrorKind::interrupted) {
          record["complete"] = false;
          break;
        }
        skipped.push_back(fmt::format("{}: {}", stem, e.what()));
        record["skipped"].push_back(skipped.back());
      }
    }
  }
  if (on_gpu) record["gpu"] = cuda::device_name();
  if (table.rows() > 0) table.print();
  for (const std::string& text : skipped) fmt::print("not timed: {}\n", text);
  const std::string kind = args.import ? "import." : "network.";
  for (const auto& [peer, r] : ratios) record["summary"][kind + peer] = r.json();
  return same_bits;
}

}  // namespace etalon::cli
