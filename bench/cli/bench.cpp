// etalon bench: speed as ratios, and what it costs in error.
//
//   etalon bench                        every shape file
//   etalon bench conv lenet             the lines of an op or a suite; a name: lenet.conv1
//   etalon bench --shape 'conv f32[1,3,8,8] f32[4,3,3,3]'
//   etalon bench vgg_a -c algo=winograd:4/3 -c seq
//                                       one contract against others of our own
//   etalon bench lenet --vs onednn,openblas,onnxruntime,pytorch --state kept --json r.json
//   etalon bench functions --vs glibc,onednn   the elementary functions
//   etalon bench net.onnx --vs onnxruntime,pytorch
//   etalon bench model:resnet50 --vs onnxruntime
//   etalon bench net.onnx --import --vs onnxruntime:opt=off
//                                       from the path to every tensor hashed, against a session
//   etalon bench conv --runs 5 --json a.json    five processes, one record
//   etalon bench conv --against old/etalon      two programs in turns, and a verdict
//   etalon bench --compare a.json b.json
//   etalon bench order                  vendor calls whose bits hang on threads, batch or ISA
#include "bench/cli/bench.h"

#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/cli/bench_compare.h"
#include "bench/cli/bench_files.h"
#include "bench/cli/bench_functions.h"
#include "bench/cli/bench_order.h"
#include "bench/cli/bench_runs.h"
#include "bench/cli/cli.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/models/models.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

struct Args {
  std::vector<std::string> words, shapes, vs, contracts, thread_counts, batches, compare;
  std::string kernels, data, cache = "warm", sort = "file", state, against;
  std::int64_t repetitions = 9, samples = 0, warm_up = 1, runs = 1;
  double min_time_ms = 30, most_time_s = 0;
  OrderOptions order;
  bool no_errors = false, import = false, wide = false, no_pin = false;
};

TimingOptions timing_of(const Args& args) {
  TimingOptions timing;
  timing.repetitions = static_cast<int>(args.repetitions);
  timing.min_time_s = args.min_time_ms / 1000;
  timing.warm_up = static_cast<int>(args.warm_up);
  timing.most_time_s = args.most_time_s;
  if (args.cache != "warm" && args.cache != "cold")
    throw usage_error("--cache {}: the caches are warm or cold", args.cache);
  timing.cache = args.cache == "cold" ? Cache::cold : Cache::warm;
  return timing;
}

template <class Int>
std::vector<Int> counts_of(const std::vector<std::string>& words, Int most, std::string_view option,
                           std::string_view what) {
  std::vector<Int> counts;
  for (const std::string& word : words) {
    Int count = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), count);
    if (error != std::errc() || end != word.data() + word.size() || count < 1 || count > most)
      throw usage_error("{} {}: give {} from 1 to {}: {} 1,2,4", option, word, what, most, option);
    counts.push_back(count);
  }
  return counts;
}

// A usage Error that lists whom one can be timed against when no kernel of any op has this prefix.
void require_library(const std::string& prefix, const std::vector<RunnerFolder>& frameworks) {
  std::set<std::string> libraries;
  for (const KernelRow* row : all_kernels().all()) {
    if (row->name.starts_with(prefix)) return;
    if (row->promise == Promise::vendor)
      libraries.emplace(row->name.substr(0, row->name.find('.')));
  }
  for (const RunnerFolder& framework : frameworks) libraries.insert(framework.name);
  throw usage_error("--vs {}: there is no such library or framework; there are {}", prefix,
                    fmt::join(libraries, ", "));
}

std::vector<NamedShape> shapes_of(const std::vector<std::string>& words, const Args& args) {
  std::vector<NamedShape> shapes;
  for (const std::string& text : args.shapes) shapes.push_back(typed_shape(text));
  if (!words.empty() || shapes.empty())
    for (NamedShape& shape : choose_shapes(words)) shapes.push_back(std::move(shape));
  return shapes;
}

// What was asked for by itself, not as part of a suite or of an op: it has to be timed.
std::set<std::string> asked_alone(const std::vector<std::string>& words,
                                  const std::vector<NamedShape>& shapes) {
  std::set<std::string> asked;
  for (const NamedShape& shape : shapes)
    if (shape.suite == kTypedSuite || std::ranges::any_of(words, [&](const std::string& word) {
          return word == shape.full_name() ||
                 word == fmt::format("{}.{}", shape.op->name, shape.full_name());
        }))
      asked.insert(shape.full_name());
  return asked;
}

struct NamedBench {
  std::vector<NamedShape> shapes;
  BenchOptions options;
  ShapeBenchOptions how;
};

// A fault of the command line is said before anything is timed.
NamedBench named_bench(const std::vector<std::string>& words, const Args& args, const Globals& g) {
  NamedBench bench;
  BenchOptions& options = bench.options;
  for (std::size_t i = 0; i < args.contracts.size(); ++i)
    if (i == 0)
      options.contract = Contract::parse(args.contracts[i]);
    else
      options.also.push_back(Contract::parse(args.contracts[i]));
  ShapeBenchOptions& how = bench.how;
  const auto folders = runner_folders();
  // A live framework is what has a runner; the rest are prefixes of kernels.
  for (const RunnerTarget& target :
       args.vs.empty() ? std::vector<RunnerTarget>{}
                       : parse_targets(fmt::format("{}", fmt::join(args.vs, ",")))) {
    const auto live = std::ranges::find(folders, target.runner, &RunnerFolder::name);
    if (live != folders.end()) {
      require_options(*live, target);
      how.frameworks.push_back(target);
      how.framework_words.push_back(target.text);
    } else {
      require_library(target.text, folders);
      options.vs.push_back(target.text);
    }
  }
  options.kernels = args.kernels;
  options.threads = g.threads;
  options.isa = g.isa;
  options.timing = timing_of(args);
  options.errors = !args.no_errors;
  how.thread_counts = counts_of(args.thread_counts, 4096, "--scale", "numbers of threads");
  how.state = args.state;
  how.sort = parse_bench_order(args.sort);
  how.wide = args.wide;
  how.pin = !args.no_pin;
  bench.shapes = shapes_of(words, args);
  return bench;
}

// "2026-11-22T05:30:12.345Z": times of runs sort as texts.
std::string now_text() {
  const auto now = std::chrono::floor<std::chrono::milliseconds>(std::chrono::system_clock::now());
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                     time.hours().count(), time.minutes().count(), time.seconds().count(),
                     time.subseconds().count());
}

// Several runs as one table and one record; against another program, whether nothing is slower.
bool bench_in_runs(const Args& args, const std::set<std::string>& asked, nlohmann::json& record) {
  const bool two = !args.against.empty();
  const int runs = args.runs > 1 ? static_cast<int>(args.runs) : 5;
  const BenchRuns how = these_runs(runs, args.against, args.state);
  const BenchSides sides = run_benches(how);
  nlohmann::json& out = record["bench"] = merged_benches(sides.own);
  print_bench_rows(out, parse_bench_order(args.sort), args.wide);
  fmt::print("\n{} runs, each a process of its own; spread is over all their repetitions\n", runs);
  if (out["load"].value("noisy", false))
    fmt::print("the machine was noisy: other programs took {:.0f} % of its processor time\n",
               100 * out["load"]["others"].get<double>());
  print_skipped(out);
  summarize_bench(out);
  const bool timed = timed_what_was_asked(out, asked);
  if (!two) return timed;
  fmt::print("\nA is {}, B is {}\n\n", args.against, how.program);
  if (const nlohmann::json other = merged_benches(sides.other);
      out["rows"].empty() || other["rows"].empty()) {
    fmt::print("nothing was timed by {}\n", out["rows"].empty() ? "B" : "A");
    print_skipped(other);
    return false;
  }
  const bool holds = compare_benches(BenchRecords{{args.against}, sides.other},
                                     BenchRecords{{how.program}, sides.own}, record["compare"]);
  return holds && timed;
}

}  // namespace

Action bench_command(Options& o) {
  auto args = std::make_shared<Args>();
  o.words(
       "WHAT", args->words,
       "Ops (conv, gemm), suites (lenet, resnet50, ...), single shapes (lenet.conv1), model files, "
       "or model:NAME for a built-in network; 'functions' for the elementary functions (--vs "
       "glibc,onednn); 'order' for calls whose bits hang on threads, batch or instruction set; "
       "without a word, all shapes",
       false)
      .repeated("--shape", args->shapes, "'OP TYPES...'",
                "A shape as a line of a shape file has it: 'conv f32[1,3,8,8] f32[4,3,3,3] "
                "strides=2x2'")
      .list("--vs", args->vs, "NAME,...",
            "For shapes: libraries' kernels (onednn, openblas) and live frameworks (onnxruntime, "
            "pytorch); for model files frameworks")
      .repeated("-c,--contract", args->contracts, "C",
                "The contract of our side (seq); given again, our kernels under each further one "
                "are timed beside the first")
      .value("--kernels", args->kernels, "NAME", "Use only our kernel of this name or prefix")
      .value("--repetitions", args->repetitions, "Repetitions of each, interleaved")
      .value("--min-time", args->min_time_ms, "Least milliseconds of one repetition")
      .value(
          "--most-time", args->most_time_s,
          "Most seconds of all repetitions of one candidate, for long lists: fewer repetitions, "
          "at least one; what takes longer in its first run is not run again (0: no limit). Of a "
          "network, of all its rounds (0: 20, and no fewer rounds than --repetitions)")
      .value("--warm-up", args->warm_up, "Runs of each before the first repetition")
      .value("--cache", args->cache, "warm|cold",
             "cold: every timed run finds the caches full of other data")
      .list("--scale", args->thread_counts, "N,...",
            "Time every shape on each of these numbers of threads")
      .value("--runs", args->runs,
             "Time everything this often, each time in a process of its own: two runs of one "
             "program differ too")
      .value("--against", args->against, "PROGRAM",
             "Time another build of etalon in turns with this one (--runs 5), and compare; exit "
             "code 1 when this one is slower or bits moved")
      .repeated("--compare", args->compare, "A B",
                "Time nothing: hold two sides against each other, with a significance test over "
                "runs; a side is a record, several (a1.json,a2.json,...), or a folder of them; "
                "exit code 1 when B is slower or bits moved",
                2)
      .value("--state", args->state, "DIR", "Keep finished rows there, and go on from them")
      .value("--sort", args->sort, "ORDER", "file, name, time, ratio, error or speed")
      .flag("--wide", args->wide, "Show set-up, memory and hashes too")
      .flag("--no-pin", args->no_pin, "Let the system move threads between processors")
      .value("-o,--output", args->order.folder, "DIR", "For 'order': where what it finds is saved")
      .flag("--all", args->order.all, "For 'order': every shape, not the first that differs")
      .list("--batch", args->batches, "N,...",
            "Batch sizes for model files (1): a row each, the framework started and the network "
            "handed to it once")
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
        args->most_time_s < 0 || args->warm_up < 1 || args->runs < 1 || args->runs > 1000)
      throw usage_error(
          "--repetitions, --min-time, --warm-up and --runs must be positive, --most-time positive "
          "or 0");
    if (args->import && (files.empty() || !words.empty()))
      throw usage_error(
          "--import times how model files are opened: give model files and no other word");
    nlohmann::json record = base_record(g.command_line, g.isa);
    if (!args->compare.empty()) {
      if (args->compare.size() != 2 || !args->words.empty() || !args->shapes.empty())
        throw usage_error("--compare takes two sides and no other word: --compare a.json b.json");
      const BenchRecords a = read_benches(args->compare[0]), b = read_benches(args->compare[1]);
      const bool holds = compare_benches(a, b, record["compare"]);
      if (!g.json_path.empty()) write_record(g.json_path, record);
      return holds ? 0 : 1;
    }
    if (std::erase(words, "order") > 0) {
      if (!words.empty() || !files.empty() || !args->shapes.empty())
        throw usage_error("'bench order' takes no other word; --vs names the libraries to ask");
      args->order.vs = args->vs;
      const int code = bench_order(args->order, g, record["order"]);
      if (!g.json_path.empty()) write_record(g.json_path, record);
      return code;
    }
    if (args->runs > 1 || !args->against.empty()) {
      if (!files.empty() || functions)
        throw usage_error("--runs and --against time ops, suites and shapes");
      if (words.empty() && args->shapes.empty())
        throw usage_error("--runs and --against take the name of what to time");
      // A fault of the command line is said here, once.
      const NamedBench named = named_bench(words, *args, g);
      const bool holds = bench_in_runs(*args, asked_alone(words, named.shapes), record);
      if (!g.json_path.empty()) write_record(g.json_path, record);
      return holds ? 0 : 1;
    }
    nlohmann::json& out = record["bench"];
    out["started"] = now_text();
    out["rows"] = nlohmann::json::array();
    out["summary"] = nlohmann::json::object();
    const bool shapes = (files.empty() && !functions) || !words.empty() || !args->shapes.empty();
    if (g.device == Device::cuda && (functions || shapes || args->import))
      throw usage_error(
          "bench --device cuda times whole networks (model:NAME, model files); operations on a GPU "
          "are timed by bench/gpu_evidence.sh, interleaved with cuBLAS and cuDNN");
    const TimingOptions timing = timing_of(*args);
    const NamedBench named = shapes ? named_bench(words, *args, g) : NamedBench{};
    std::set<std::string> asked = asked_alone(words, named.shapes);
    bool well = true;
    if (!files.empty()) {
      FileBenchOptions options{
          .data = args->data, .samples = args->samples, .import = args->import};
      options.alone = files.size() == 1 && !functions && !shapes;
      if (!args->batches.empty())
        options.batches = counts_of<std::int64_t>(args->batches, 1 << 20, "--batch", "batch sizes");
      if (args->contracts.size() > 1)
        throw usage_error("model files are timed under one contract, {} are given",
                          args->contracts.size());
      if (!args->contracts.empty()) options.network.contract = Contract::parse(args->contracts[0]);
      options.network.threads = g.threads;
      options.network.isa = g.isa;
      options.network.device = g.device;
      options.network.rounds = static_cast<int>(args->repetitions);
      options.network.most_time_s = args->most_time_s;
      // --vs was split at every comma; targets know which commas are theirs.
      if (!args->vs.empty())
        options.network.vs = parse_targets(fmt::format("{}", fmt::join(args->vs, ",")));
      for (const RunnerTarget& target : options.network.vs)
        require_options(find_runner(target.runner), target);
      for (const std::string& file : files)
        asked.insert(std::filesystem::path(file).filename().string());
      well = bench_files(files, options, out);
    }
    if (functions) {
      FunctionBenchOptions options;
      options.vs = args->vs;
      options.threads = g.threads;
      options.isa = g.isa;
      options.errors = !args->no_errors;
      options.timing = timing;
      bench_functions(options, out);
    }
    if (shapes) bench_shapes(named.shapes, named.options, named.how, out);
    if (!g.json_path.empty()) write_record(g.json_path, record);
    if (!out.value("complete", true)) return static_cast<int>(ErrorKind::interrupted);
    return well && timed_what_was_asked(out, asked) ? 0 : 1;
  };
}

}  // namespace etalon::cli
