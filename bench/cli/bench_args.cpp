#include "bench/cli/bench_args.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>

#include "bench/cli/bench_rows.h"
#include "bench/data.h"
#include "engine/core/error.h"
#include "engine/core/nearest.h"
#include "engine/models/models.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

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

void within(const char* option, double value, double least, double most, const char* unit) {
  if (!(value >= least && value <= most))
    throw usage_error("{} {}: give a number from {} to {}{}", option, value, least, most, unit);
}

TimingOptions timing_of(const BenchArgs& args) {
  within("--repetitions", static_cast<double>(args.repetitions), 1, 1000, "");
  within("--min-time", args.min_time_ms, 0.001, 600000, " milliseconds");
  within("--most-time", args.most_time_s, 0, 1e6, " seconds");
  within("--warm-up", static_cast<double>(args.warm_up), 1, 1e6, "");
  within("--runs", static_cast<double>(args.runs), 1, 1000, "");
  if (args.cache != "warm" && args.cache != "cold")
    throw usage_error("--cache {}: the caches are warm or cold", args.cache);
  TimingOptions timing;
  timing.repetitions = static_cast<int>(args.repetitions);
  timing.min_time_s = args.min_time_ms / 1000;
  timing.warm_up = static_cast<int>(args.warm_up);
  timing.most_time_s = args.most_time_s;
  timing.cache = args.cache == "cold" ? Cache::cold : Cache::warm;
  return timing;
}

// Who takes an option: shapes, files, their opening, functions, order.
struct Takers {
  const char* option;
  std::string_view by;  // letters of kAsked
};
constexpr std::pair<char, std::string_view> kAsked[] = {{'s', "ops, suites and shapes"},
                                                        {'f', "model files"},
                                                        {'i', "model files under --import"},
                                                        {'e', "'functions'"},
                                                        {'o', "'order'"}};
constexpr Takers kTakers[] = {
    {"--vs", "sfieo"},    {"--contract", "sf"}, {"--kernels", "s"}, {"--repetitions", "sfie"},
    {"--min-time", "se"}, {"--warm-up", "se"},  {"--cache", "se"},  {"--most-time", "sfie"},
    {"--scale", "s"},     {"--runs", "s"},      {"--against", "s"}, {"--state", "s"},
    {"--sort", "s"},      {"--wide", "sfi"},    {"--no-pin", "s"},  {"--no-errors", "se"},
    {"--output", "o"},    {"--all", "o"},       {"--batch", "f"},   {"--data", "f"},
    {"--samples", "f"},   {"--import", "i"}};

void check_taken(const Options& options, const BenchArgs& args, const BenchAsked& asked) {
  std::string letters;
  if (!asked.compare && !asked.order) {
    if (asked.shapes) letters += 's';
    if (!asked.files.empty()) letters += args.import ? 'i' : 'f';
    if (asked.functions) letters += 'e';
  } else if (asked.order) {
    letters = "o";
  }
  for (const Takers& t : kTakers) {
    if (!options.given(t.option) || t.by.find_first_of(letters) != std::string_view::npos) continue;
    if (asked.compare)
      throw usage_error("{} is for what is timed, and --compare times nothing; leave it out",
                        t.option);
    std::vector<std::string_view> takers;
    for (const auto& [letter, name] : kAsked)
      if (t.by.find(letter) != std::string_view::npos) takers.push_back(name);
    throw usage_error("{} is for {}, and nothing of that kind was asked for; leave it out",
                      t.option, fmt::join(takers, " and for "));
  }
}

// A usage Error that says whom one can be timed against when no kernel of any op has this prefix.
void require_library(const std::string& prefix, const std::vector<RunnerFolder>& frameworks) {
  std::set<std::string> libraries;
  for (const KernelRow* row : all_kernels().all()) {
    if (row->name.starts_with(prefix)) return;
    if (row->promise == Promise::vendor)
      libraries.emplace(row->name.substr(0, row->name.find('.')));
  }
  for (const RunnerFolder& framework : frameworks) libraries.insert(framework.name);
  throw usage_error(
      "--vs {}: there is no such library or framework{}", prefix,
      did_you_mean(prefix, libraries, fmt::format("; there are {}", fmt::join(libraries, ", "))));
}

// Kernels of ours by a name that none has would be refused shape by shape.
void require_kernel(const std::string& prefix) {
  std::set<std::string_view> names;
  for (const KernelRow* row : all_kernels().all()) {
    if (row->promise == Promise::vendor) continue;
    if (row->name.starts_with(prefix)) return;
    names.insert(row->name);
    names.insert(row->name.substr(0, row->name.find('.')));
  }
  throw usage_error("--kernels {}: no kernel's name begins so{}", prefix,
                    did_you_mean(prefix, names, "; 'etalon kernels OP' lists those of an op"));
}

void sort_peers(const BenchArgs& args, const BenchAsked& asked, BenchSettings& settings) {
  if (args.vs.empty()) return;
  // --vs was split at every comma; targets know which commas are theirs.
  const auto folders = runner_folders();
  for (const RunnerTarget& target : parse_targets(fmt::format("{}", fmt::join(args.vs, ",")))) {
    if (const auto live = std::ranges::find(folders, target.runner, &RunnerFolder::name);
        live != folders.end()) {
      require_options(*live, target);
      if (asked.functions && !asked.shapes && asked.files.empty())
        throw usage_error("--vs {}: functions are timed against glibc and onednn", target.text);
      settings.frameworks.push_back(target);
      continue;
    }
    require_library(target.text, folders);
    if (!asked.shapes && !asked.order && !asked.files.empty() && !asked.functions)
      throw usage_error("--vs {}: model files are timed against frameworks; there are {}",
                        target.text, [&] {
                          std::string names;
                          for (const RunnerFolder& f : folders)
                            names += (names.empty() ? "" : ", ") + f.name;
                          return names;
                        }());
    if (asked.functions && !asked.shapes && target.text != "glibc" && target.text != "onednn")
      throw usage_error("--vs {}: functions are timed against glibc and onednn", target.text);
    settings.libraries.push_back(target.text);
  }
}

}  // namespace

void declare_bench(Options& options, BenchArgs& args) {
  options
      .words(
          "WHAT", args.words,
          "Ops (conv, gemm), suites (lenet, resnet50, ...), single shapes (lenet.conv1), model "
          "files, "
          "or model:NAME for a built-in network; 'functions' for the elementary functions (--vs "
          "glibc,onednn); 'order' for calls whose bits hang on threads, batch or instruction set; "
          "without a word, all shapes",
          false)
      .repeated("--shape", args.shapes, "'OP TYPES...'",
                "A shape as a line of a shape file has it: 'conv f32[1,3,8,8] f32[4,3,3,3] "
                "strides=2x2'")
      .list("--vs", args.vs, "NAME,...",
            "For shapes: libraries' kernels (onednn, openblas) and live frameworks (onnxruntime, "
            "pytorch); for model files frameworks")
      .repeated("-c,--contract", args.contracts, "C",
                "The contract of our side (seq); given again, our kernels under each further one "
                "are timed beside the first")
      .value("--kernels", args.kernels, "NAME", "Use only our kernel of this name or prefix")
      .value("--repetitions", args.repetitions, "Repetitions of each, interleaved")
      .value("--min-time", args.min_time_ms, "Least milliseconds of one repetition")
      .value(
          "--most-time", args.most_time_s,
          "Most seconds of all repetitions of one candidate, for long lists: fewer repetitions, "
          "at least one; what takes longer in its first run is not run again (0: no limit). Of a "
          "network, of all its rounds (0: 20, and no fewer rounds than --repetitions)")
      .value("--warm-up", args.warm_up, "Runs of each before the first repetition")
      .value("--cache", args.cache, "warm|cold",
             "cold: every timed run finds the caches full of other data")
      .list("--scale", args.thread_counts, "N,...",
            "Time every shape on each of these numbers of threads")
      .value("--runs", args.runs,
             "Time everything this often, each time in a process of its own: two runs of one "
             "program differ too")
      .value("--against", args.against, "PROGRAM",
             "Time another build of etalon in turns with this one (--runs 5), and compare; exit "
             "code 1 when this one is slower or bits moved")
      .repeated("--compare", args.compare, "A B",
                "Time nothing: hold two sides against each other, with a significance test over "
                "runs; a side is a record, several (a1.json,a2.json,...), or a folder of them; "
                "exit code 1 when B is slower or bits moved",
                2)
      .value("--state", args.state, "DIR", "Keep finished rows there, and go on from them")
      .value("--sort", args.sort, "ORDER", "file, name, time, ratio, error or speed")
      .flag("--wide", args.wide, "Show set-up, memory and hashes too")
      .flag("--no-pin", args.no_pin, "Let the system move threads between processors")
      .value("-o,--output", args.order.folder, "DIR", "For 'order': where what it finds is saved")
      .flag("--all", args.order.all, "For 'order': every shape, not the first that differs")
      .list("--batch", args.batches, "N,...",
            "Batch sizes for model files (1): a row each, the framework started and the network "
            "handed to it once")
      .value("--data", args.data, "NAME", "Data for model files instead of noise: mnist")
      .value("--samples", args.samples, "Use this many samples of --data (all)")
      .flag("--import", args.import,
            "Time how model files are opened: ours up to the hash of all tensors, theirs up to a "
            "network that could run (onnxruntime:opt=off: without optimisation)")
      .flag("--no-errors", args.no_errors, "Do not count errors against exact values");
}

BenchAsked asked_of(const BenchArgs& args) {
  BenchAsked asked;
  asked.compare = !args.compare.empty();
  for (const std::string& word : args.words)
    (!built_model_name(word).empty() || std::filesystem::is_regular_file(word) ? asked.files
                                                                               : asked.words)
        .push_back(word);
  asked.functions = std::erase(asked.words, "functions") > 0;
  asked.order = std::erase(asked.words, "order") > 0;
  asked.shapes = (asked.files.empty() && !asked.functions && !asked.order && !asked.compare) ||
                 !asked.words.empty() || !args.shapes.empty();
  return asked;
}

BenchSettings check_bench(const Options& options, const BenchArgs& args, const BenchAsked& asked) {
  BenchSettings settings;
  settings.timing = timing_of(args);
  parse_bench_order(args.sort);
  for (const std::string& text : args.contracts)
    settings.contracts.push_back(Contract::parse(text));
  settings.thread_counts = counts_of(args.thread_counts, 4096, "--scale", "numbers of threads");
  settings.batches = counts_of<std::int64_t>(args.batches, 1 << 20, "--batch", "batch sizes");
  if (!args.kernels.empty()) require_kernel(args.kernels);
  if (asked.compare) {
    if (args.compare.size() != 2 || !args.words.empty() || !args.shapes.empty())
      throw usage_error("--compare takes two sides and no other word: --compare a.json b.json");
  } else if (asked.order && (asked.shapes || asked.functions || !asked.files.empty())) {
    throw usage_error("'bench order' takes no other word; --vs names the libraries to ask");
  } else if (args.import && (asked.files.empty() || asked.shapes || asked.functions)) {
    throw usage_error(
        "--import times how model files are opened: give model files and no other word");
  } else if ((args.runs > 1 || !args.against.empty()) &&
             (asked.functions || !asked.files.empty() ||
              args.words.size() + args.shapes.size() == 0))
    throw usage_error("--runs and --against time ops, suites and shapes, and take their names");
  check_taken(options, args, asked);
  if (!asked.files.empty() && !asked.shapes && args.contracts.size() > 1)
    throw usage_error("model files are timed under one contract, {} are given",
                      args.contracts.size());
  if (options.given("--samples") && (args.data.empty() || args.samples < 1))
    throw usage_error("--samples {}: give a number above 0, of a data set that --data names",
                      args.samples);
  if (!args.data.empty()) {
    if (!args.batches.empty())
      throw usage_error("--batch is for noise: of --data, --samples says how many are taken");
    load_dataset(args.data, args.samples);
  }
  sort_peers(args, asked, settings);
  return settings;
}

}  // namespace etalon::cli
