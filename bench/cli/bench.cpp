// etalon bench: speed as ratios, and what it costs in error.
//
//   etalon bench                        every shape file
//   etalon bench conv lenet             the lines of an op or a suite; a name: lenet.conv1
//   etalon bench vgg_a -c algo=winograd:4/3 -c seq
//                                       one contract against others of our own
//   etalon bench functions --vs glibc,onednn   the elementary functions
//   etalon bench net.onnx --vs onnxruntime,pytorch
//   etalon bench model:resnet50 --vs onnxruntime
//   etalon bench net.onnx --import --vs onnxruntime:opt=off
//                                       from the path to every tensor hashed, against a session
#include "bench/cli/bench.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/cli/bench_functions.h"
#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/data.h"
#include "bench/micro/network_bench.h"
#include "bench/micro/peak.h"
#include "bench/micro/shape_bench.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/core/threads.h"
#include "engine/models/models.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

struct Args {
  std::vector<std::string> words, vs, contracts;
  std::string kernels, data;
  std::int64_t repetitions = 9, batch = 1, samples = 0;
  double min_time_ms = 30;
  bool no_errors = false, import = false;
};

// Geometric mean and worst of the ratios to one peer; of several rows of one library the fastest
// on each shape counts.
struct Ratios {
  double log_sum = 0, worst = 0;
  int count = 0;
  std::string worst_shape;
  void add(double ratio, const std::string& shape) {
    log_sum += std::log(ratio);
    if (ratio > worst) worst_shape = shape;
    worst = std::max(worst, ratio);
    ++count;
  }
  double geomean() const { return std::exp(log_sum / count); }
  nlohmann::json json() const {
    return {
        {"geomean", geomean()}, {"worst", worst}, {"worst_shape", worst_shape}, {"shapes", count}};
  }
};

// What a library's figures are a summary of: its rows that take and give row-major tensors, and
// all of them with conversions left out of the time.
constexpr std::string_view kBlocked = ".blocked";
// Our own kernels under another contract.
constexpr std::string_view kContract = "contract ";

std::string peer_name(const BenchEntry& peer) {
  return peer.contract.empty() ? peer.kernel : fmt::format("{} ({})", peer.contract, peer.kernel);
}

std::string view_text(std::string_view view) {
  if (view.starts_with(kContract)) {
    view.remove_prefix(kContract.size());
    return fmt::format("our kernels under {}", view);
  }
  if (!view.ends_with(kBlocked)) return fmt::format("{}, tensors row-major as ours", view);
  view.remove_suffix(kBlocked.size());
  return fmt::format("{}, tensors in its own layouts", view);
}

std::string ratio_text(double ratio) {
  const std::string text = fmt::format("{:.2f}", ratio);
  return coloured(text, ratio <= 1 ? Colour::green : ratio <= 1.2 ? Colour::plain : Colour::yellow);
}

std::string ulp_text(const std::optional<UlpError>& error) {
  if (!error) return "-";
  return fmt::format("{:.3g}", error->max);
}

nlohmann::json timing_json(const Timing& t) {
  return {{"median_s", t.median_s}, {"spread", t.spread}, {"repetitions", t.repetitions}};
}

void add_error(nlohmann::json& row, const std::optional<UlpError>& error) {
  if (!error) return;
  row["max_ulp"] = error->max;
  row["mean_ulp"] = error->mean;
}

NetworkBenchRow time_network(const std::string& file, const Args& args,
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

void bench_files(const std::vector<std::string>& files, const Args& args, const Globals& g,
                 std::map<std::string, Ratios>& ratios, nlohmann::json& record) {
  NetworkBenchOptions options;
  if (args.contracts.size() > 1)
    throw usage_error("model files are timed under one contract, {} are given",
                      args.contracts.size());
  if (!args.contracts.empty()) options.contract = Contract::parse(args.contracts[0]);
  options.threads = g.threads;
  options.isa = g.isa;
  options.rounds = static_cast<int>(args.repetitions);
  // --vs was split at every comma; targets know which commas are theirs.
  if (!args.vs.empty()) options.vs = parse_targets(fmt::format("{}", fmt::join(args.vs, ",")));
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
                          {"threads", g.threads}};
    const NetworkBenchRow row =
        args.import ? time_import(file, options, out) : time_network(file, args, options, out);
    out["hash"] = row.ours.hash;
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
}

nlohmann::json bench_row_json(const BenchRow& row, int threads) {
  nlohmann::json out = {
      {"suite", row.shape.suite}, {"name", row.shape.full_name()}, {"op", row.shape.op->name},
      {"shape", row.shape.line},  {"contract", row.contract},      {"kernel", row.ours.kernel},
      {"threads", threads},       {"gflops", row.ours.gflops},     {"of_peak", row.ours.of_peak},
      {"hash", row.ours.hash},    {"refused", row.refused}};
  out.update(timing_json(row.ours.timing));
  add_error(out, row.ours.error);
  if (!row.no_error_because.empty()) out["no_error_because"] = row.no_error_because;
  for (const BenchEntry& peer : row.vs) {
    nlohmann::json theirs = {{"version", peer.version},
                             {"ratio", row.ours.timing.median_s / peer.timing.median_s},
                             {"gflops", peer.gflops},
                             {"of_peak", peer.of_peak},
                             {"hash", peer.hash}};
    theirs.update(timing_json(peer.timing));
    add_error(theirs, peer.error);
    if (!peer.contract.empty()) theirs["kernel"] = peer.kernel;
    out["vs"][peer.contract.empty() ? peer.kernel : peer.contract] = std::move(theirs);
  }
  return out;
}

}  // namespace

std::vector<NamedShape> choose_shapes(const std::vector<std::string>& words) {
  const std::vector<NamedShape> all = load_shapes();
  std::vector<NamedShape> chosen;
  for (const NamedShape& shape : all) {
    bool wanted = words.empty() && !only_by_name(shape.suite);
    for (const std::string& word : words)
      wanted = wanted || word == shape.op->name || word == shape.suite ||
               word == shape.full_name() ||
               word == std::string(shape.op->name) + "." + shape.full_name();
    if (wanted) chosen.push_back(shape);
  }
  if (!chosen.empty()) return chosen;
  std::map<std::string, int> suites;
  for (const NamedShape& shape : all) ++suites[shape.suite];
  std::string names;
  for (const auto& [suite, count] : suites) names += (names.empty() ? "" : ", ") + suite;
  throw usage_error("nothing to time is named '{}'; give an op, a model file, or one of {}",
                    fmt::join(words, " "), names);
}

void bench_shapes(const std::vector<NamedShape>& shapes, const BenchOptions& options,
                  nlohmann::json& record) {
  Table table({{"shape"},
               {"kernel"},
               {"time", Table::Align::right},
               {"GFLOP/s", Table::Align::right},
               {"of peak", Table::Align::right},
               {"max ULP", Table::Align::right},
               {"against"},
               {"time", Table::Align::right},
               {"ratio", Table::Align::right},
               {"max ULP", Table::Align::right}});
  std::map<std::string, Ratios> ratios;
  std::vector<std::string> skipped;
  std::string refused;  // reasons of further contracts, below the table
  {
    Progress progress("timing", static_cast<std::int64_t>(shapes.size()));
    std::int64_t done = 0;
    for (const NamedShape& shape : shapes) {
      check_interrupt();
      progress.update(done++, shape.full_name());
      BenchRow row;
      try {
        row = bench_shape(shape, all_kernels(), options);
      } catch (const Error& e) {
        if (e.kind() != ErrorKind::usage) throw;
        skipped.push_back(fmt::format("{}: {}", shape.full_name(), e.what()));
        record["skipped"].push_back(skipped.back());
        continue;
      }
      std::vector<std::string> cells{
          std::string(shape.op->name) + " " + shape.full_name(),
          row.ours.kernel,
          human_seconds(row.ours.timing.median_s),
          row.ours.gflops > 0 ? fmt::format("{:.1f}", row.ours.gflops) : "",
          fmt::format("{:.0f} %", 100 * row.ours.of_peak),
          ulp_text(row.ours.error)};
      std::map<std::string, double> best;  // by library and view: ratio to its fastest row
      for (const BenchEntry& peer : row.vs) {
        const double ratio = row.ours.timing.median_s / peer.timing.median_s;
        std::vector<std::string> line = cells;
        line.insert(line.end(), {peer_name(peer), human_seconds(peer.timing.median_s),
                                 ratio_text(ratio), ulp_text(peer.error)});
        table.row(std::move(line));
        cells.assign(6, "");
        if (!peer.contract.empty()) {
          best[std::string(kContract) + peer.contract] = ratio;
          continue;
        }
        const std::string library = peer.kernel.substr(0, peer.kernel.find('.'));
        double& own = best[library + std::string(kBlocked)];
        own = std::max(own, ratio);
        if (peer.blocked) continue;
        double& plain = best[library];
        plain = std::max(plain, ratio);
      }
      if (row.vs.empty()) table.row(std::move(cells));
      if (!options.also.empty())
        for (const std::string& reason : row.refused)
          refused += fmt::format("{}: {}\n", shape.full_name(), reason);
      for (const auto& [view, ratio] : best) ratios[view].add(ratio, shape.full_name());
      record["rows"].push_back(bench_row_json(row, options.threads));
    }
  }
  const Peak& peak = measured_peak(options.threads, options.isa);
  record["peak"] = {{"gflops", peak.gflops}, {"gbytes", peak.gbytes}};
  table.print();
  fmt::print("\npeak measured here on {} thread{}: {:.0f} GFLOP/s of f32, {:.1f} GB/s\n",
             options.threads, options.threads == 1 ? "" : "s", peak.gflops, peak.gbytes);
  for (const std::string& text : skipped) fmt::print("not timed: {}\n", text);
  if (!refused.empty()) fmt::print("\n{}", refused);
  for (const auto& [view, r] : ratios) {
    record["summary"][view] = r.json();
    fmt::print(
        "\n{} shapes against {}{}: geometric mean {:.2f} of its time, worst {:.2f} "
        "({})\n",
        r.count, view.starts_with(kContract) ? "" : "the fastest of ", view_text(view), r.geomean(),
        r.worst, r.worst_shape);
  }
}

Action bench_command(Options& o) {
  auto args = std::make_shared<Args>();
  o.words(
       "WHAT", args->words,
       "Ops (conv, gemm), suites (lenet, resnet50, ...), single shapes (lenet.conv1), model files, "
       "or model:NAME for a built-in network; 'functions' for the elementary functions (--vs "
       "glibc,onednn); without a word, all shapes",
       false)
      .list("--vs", args->vs, "NAME,...",
            "For shapes: vendors' kernels (onednn). For model files: frameworks (onnxruntime, "
            "pytorch)")
      .repeated("-c,--contract", args->contracts, "C",
                "The contract of our side (seq); given again, our kernels under each further one "
                "are timed beside the first")
      .value("--kernels", args->kernels, "NAME", "Use only our kernel of this name or prefix")
      .value("--repetitions", args->repetitions, "Repetitions of each, interleaved")
      .value("--min-time", args->min_time_ms, "Least milliseconds of one repetition")
      .value("--batch", args->batch, "Batch size for model files")
      .value("--data", args->data, "NAME", "Data for model files instead of noise: mnist")
      .value("--samples", args->samples, "Use this many samples of --data")
      .flag("--import", args->import,
            "Time how model files are opened: ours up to the hash of all tensors, theirs up to a "
            "network that could run (onnxruntime:opt=off: without optimisation)")
      .flag("--no-errors", args->no_errors, "Do not count errors against exact values");
  return [args](const Globals& g) {
    std::vector<std::string> files, words;
    for (const std::string& word : args->words)
      (!built_model_name(word).empty() || std::filesystem::is_regular_file(word) ? files : words)
          .push_back(word);
    const bool functions = std::erase(words, "functions") > 0;
    if (args->repetitions < 1 || args->repetitions > 1000 || args->min_time_ms <= 0 ||
        args->batch < 1)
      throw usage_error("--repetitions, --min-time and --batch must be positive");
    if (args->import && (files.empty() || !words.empty()))
      throw usage_error(
          "--import times how model files are opened: give model files and no other word");
    nlohmann::json record = base_record(g.command_line, g.isa);
    nlohmann::json& out = record["bench"];
    out["rows"] = nlohmann::json::array();
    out["summary"] = nlohmann::json::object();
    if (!files.empty()) {
      std::map<std::string, Ratios> ratios;
      bench_files(files, *args, g, ratios, out);
      for (const auto& [peer, r] : ratios) out["summary"][peer] = r.json();
    }
    if (functions) {
      FunctionBenchOptions options;
      options.vs = args->vs;
      options.threads = g.threads;
      options.isa = g.isa;
      options.timing.repetitions = static_cast<int>(args->repetitions);
      options.timing.min_time_s = args->min_time_ms / 1000;
      bench_functions(options, out);
    }
    if ((files.empty() && !functions) || !words.empty()) {
      BenchOptions options;
      for (std::size_t i = 0; i < args->contracts.size(); ++i)
        if (i == 0)
          options.contract = Contract::parse(args->contracts[i]);
        else
          options.also.push_back(Contract::parse(args->contracts[i]));
      options.kernels = args->kernels;
      options.vs = args->vs;
      options.threads = g.threads;
      options.isa = g.isa;
      options.timing.repetitions = static_cast<int>(args->repetitions);
      options.timing.min_time_s = args->min_time_ms / 1000;
      options.errors = !args->no_errors;
      bench_shapes(choose_shapes(words), options, out);
    }
    if (!g.json_path.empty()) write_record(g.json_path, record);
    return 0;
  };
}

}  // namespace etalon::cli
