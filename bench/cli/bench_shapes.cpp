#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/cli/bench.h"
#include "bench/cli/bench_peaks.h"
#include "bench/cli/bench_rows.h"
#include "bench/cli/bench_state.h"
#include "bench/cli/bench_trips.h"
#include "bench/cli/cli.h"
#include "bench/cli/terminal.h"
#include "bench/micro/framework_peers.h"
#include "bench/micro/peak.h"
#include "bench/report/record.h"
#include "engine/core/error.h"
#include "engine/core/nearest.h"
#include "engine/core/threads.h"
#include "kernels/kernels.h"

namespace etalon::cli {
namespace {

using json = nlohmann::json;

// What changes a library from outside: its own variables, its threads', which library is found.
json peers_environment() {
  constexpr std::array<std::string_view, 15> kBegins{
      "ONEDNN_",  "DNNL_",     "OMP_",        "GOMP_",        "KMP_",
      "MKL_",     "OPENBLAS_", "GOTO_",       "BLIS_",        "TORCH_",
      "PYTORCH_", "ATEN_",     "LD_PRELOAD=", "LD_LIBRARY_P", "GLIBC_TUNABLES="};
  json set = json::array();
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view text = *at;
    if (std::ranges::any_of(kBegins, [&](std::string_view b) { return text.starts_with(b); }))
      set.push_back(text);
  }
  std::sort(set.begin(), set.end());
  return set;
}

// Everything that a row hangs on but the shape.
json settings_of(const BenchOptions& options, const ShapeBenchOptions& how) {
  json j = base_record("", options.isa);
  j.erase("command");
  for (const Contract& c : options.also) j["also"].push_back(to_string(c));
  j["contract"] = to_string(options.contract);
  j["kernels"] = options.kernels;
  j["vs"] = options.vs;
  j["frameworks"] = how.framework_words;
  j["cache"] = static_cast<int>(options.timing.cache);
  j["timing"] = {options.timing.repetitions, options.timing.min_time_s, options.timing.warm_up,
                 options.timing.most_time_s};
  j["errors"] = options.errors;
  j["pin"] = how.pin;
  j["environment"] = peers_environment();
  return j;
}

// Of a row of an earlier run.
MachineLoad load_of(const json& row) {
  const json& load = row["load"];
  return {
      .others = load["others"], .stolen = load["stolen"], .seconds = load.value("seconds", 1.0)};
}

// A library that was asked for and has no row at all for this op, or whose rows all refuse for one
// reason, is said once.
void add_note(std::vector<std::string>& notes, const BenchRow& row, const std::string& library) {
  for (const BenchEntry& peer : row.vs)
    if (peer.kernel.starts_with(library)) return;
  std::string text = fmt::format("{}: no row for {}", library, row.shape.op->name);
  for (const std::string& reason : row.refused)
    if (reason.starts_with(library)) text = reason;
  if (std::ranges::find(notes, text) == notes.end()) notes.push_back(text);
}

// A usage Error where the tensors alone are more than the memory that is free. The system would
// grant it and end the process once it is used.
void require_memory(const NamedShape& shape) {
  double needed = 0;
  for (const auto* types : {&shape.inputs, &shape.outputs})
    for (const TensorType& t : *types)
      needed += static_cast<double>(t.shape.numel()) * static_cast<double>(size_bytes(t.dtype));
  std::ifstream info("/proc/meminfo");
  for (std::string word; info >> word;) {
    if (word != "MemAvailable:") continue;
    double free_kb = 0;
    info >> free_kb;
    if (needed > 1024 * free_kb)
      throw usage_error("its tensors take {:.1f} GB, and {:.1f} GB of memory are free",
                        1e-9 * needed, 1.024e-6 * free_kb);
  }
}

json load_json(const MachineLoad& load) {
  return {{"others", load.others}, {"stolen", load.stolen}, {"noisy", load.noisy()}};
}

}  // namespace

std::vector<NamedShape> choose_shapes(const std::vector<std::string>& words) {
  const std::vector<NamedShape> all = load_shapes();
  const auto named = [](const NamedShape& shape, const std::string& word) {
    const std::string op(shape.op->name);
    return word == op || word == shape.suite || word == op + "." + shape.suite ||
           word == shape.full_name() || word == op + "." + shape.full_name();
  };
  for (const std::string& word : words) {
    if (std::ranges::any_of(all, [&](const NamedShape& shape) { return named(shape, word); }))
      continue;
    std::set<std::string> suites, names{"functions", "order"};
    for (const NamedShape& shape : all) {
      const std::string op(shape.op->name);
      suites.insert(shape.suite);
      for (const std::string& of : {shape.suite, shape.full_name()})
        names.insert({op, of, op + "." + of});
    }
    throw usage_error(
        "nothing to time is named '{}'{}", word,
        did_you_mean(word, names,
                     fmt::format("; give an op, a model file, --shape 'conv f32[1,3,8,8] "
                                 "f32[4,3,3,3]', or one of {}",
                                 fmt::join(suites, ", "))));
  }
  std::vector<NamedShape> chosen;
  for (const NamedShape& shape : all)
    if (words.empty() ? !only_by_name(shape.suite)
                      : std::ranges::any_of(
                            words, [&](const std::string& word) { return named(shape, word); }))
      chosen.push_back(shape);
  return chosen;
}

NamedShape typed_shape(const std::string& text) {
  const auto space = text.find(' ');
  if (space == std::string::npos)
    throw usage_error(
        "--shape '{}': write the op, then a type for each input: --shape "
        "'conv f32[1,3,8,8] f32[4,3,3,3] strides=2x2'",
        text);
  const OpRow& op = get_op(text.substr(0, space));
  const ErrorScope scope("--shape");
  NamedShape shape = parse_shape(op, fmt::format("{}.x {}", kTypedSuite, text.substr(space + 1)));
  shape.name = shape.line;
  for (char& c : shape.name)
    if (c == ' ') c = '_';
  return shape;
}

void bench_shapes(const std::vector<NamedShape>& shapes, const BenchOptions& base,
                  const ShapeBenchOptions& how, json& bench) {
  const BenchState kept(how.state, settings_of(base, how));
  BenchState state = kept;
  std::vector<std::string> skipped, notes;
  std::string refused;  // reasons of further contracts, below the table
  const std::vector<int> counts =
      how.thread_counts.empty() ? std::vector<int>{base.threads} : how.thread_counts;
  std::vector<std::string> again_vs = base.vs;
  again_vs.insert(again_vs.end(), how.framework_words.begin(), how.framework_words.end());
  MachineLoad load;
  std::size_t from_before = 0;
  bool interrupted_early = false;
  for (const int threads : counts) {
    BenchOptions options = base;
    options.threads = threads;
    const Pinned pinned(how.pin ? threads : 0);
    bench["pinned"].push_back({{"threads", threads}, {"processors", pinned.processors()}});
    std::unique_ptr<FrameworkPeers> frameworks;  // started with the first shape to be timed
    Progress progress(counts.size() > 1 ? fmt::format("timing on {}", threads) : "timing",
                      static_cast<std::int64_t>(shapes.size()));
    std::int64_t done = 0;
    for (const NamedShape& shape : shapes) {
      progress.update(done++, shape.full_name());
      const std::string key =
          fmt::format("{} {} {} {}", shape.op->name, shape.full_name(), shape.line, threads);
      if (const json* known = kept.find(key); known != nullptr && is_bench_row(*known)) {
        bench["rows"].push_back(*known);
        load.add(load_of(*known));
        ++from_before;
        continue;
      }
      try {
        check_interrupt();
        require_memory(shape);
        if (frameworks == nullptr && !how.frameworks.empty())
          frameworks = std::make_unique<FrameworkPeers>(how.frameworks, threads);
        options.frameworks = frameworks.get();
        const BenchRow row = bench_shape(shape, all_kernels(), options);
        load.add(row.load);
        if (!options.also.empty())
          for (const std::string& reason : row.refused)
            refused += fmt::format("{}: {}\n", shape.full_name(), reason);
        for (const std::string& prefix : options.vs) add_note(notes, row, prefix);
        json j = bench_row_json(row, options, again_command(shape, options, again_vs));
        state.add(key, j);
        bench["rows"].push_back(std::move(j));
      } catch (const Error& e) {
        if (e.kind() == ErrorKind::interrupted) {
          interrupted_early = true;
          break;
        }
        skipped.push_back(fmt::format("{}: {}", shape.full_name(), e.what()));
        bench["skipped"].push_back(skipped.back());
      } catch (const std::bad_alloc&) {
        skipped.push_back(fmt::format("{}: there is not enough memory for it", shape.full_name()));
        bench["skipped"].push_back(skipped.back());
      }
    }
    bench["peaks"].push_back(peak_json(threads, measured_peak(threads, options.isa)));
    if (interrupted_early) break;
  }
  settle_peaks(bench);
  bench["load"] = load_json(load);
  sum_up_trips(bench);
  bench["complete"] = !interrupted_early;
  print_bench_rows(bench, how.sort, how.wide);
  fmt::print("\n");
  print_peaks(bench);
  if (const std::string noise = noise_text(load); !noise.empty()) fmt::print("{}\n", noise);
  if (const std::string trips = trips_text(bench); !trips.empty()) fmt::print("{}\n", trips);
  if (!state.fault().empty())
    fmt::print("{}; this run's record has its rows, another run would time them again\n",
               state.fault());
  if (from_before > 0)
    fmt::print("{} row{} from an earlier run ({})\n", from_before,
               from_before == 1 ? " comes" : "s come", how.state);
  for (const std::string& text : skipped) fmt::print("not timed: {}\n", text);
  for (const std::string& text : notes) fmt::print("{}\n", text);
  if (!refused.empty()) fmt::print("\n{}", refused);
  summarize_bench(bench);
  if (interrupted_early)
    fmt::print("\ninterrupted: {} rows are kept{}\n", bench["rows"].size(),
               how.state.empty() ? "; with --state DIR a run goes on where it stopped" : "");
}

}  // namespace etalon::cli
