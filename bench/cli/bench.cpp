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

#include <algorithm>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/cli/bench_args.h"
#include "bench/cli/bench_compare.h"
#include "bench/cli/bench_files.h"
#include "bench/cli/bench_functions.h"
#include "bench/cli/bench_order.h"
#include "bench/cli/bench_runs.h"
#include "bench/cli/cli.h"
#include "bench/report/record.h"
#include "engine/core/error.h"

namespace etalon::cli {
namespace {

std::vector<NamedShape> shapes_of(const BenchArgs& args, const BenchAsked& asked) {
  std::vector<NamedShape> shapes;
  for (const std::string& text : args.shapes) shapes.push_back(typed_shape(text));
  if (!asked.words.empty() || shapes.empty())
    for (NamedShape& shape : choose_shapes(asked.words)) shapes.push_back(std::move(shape));
  return shapes;
}

// What was asked for by itself, not as part of a suite or of an op: it has to be timed.
std::set<std::string> asked_alone(const BenchAsked& asked, const std::vector<NamedShape>& shapes) {
  std::set<std::string> alone;
  for (const NamedShape& shape : shapes)
    if (shape.suite == kTypedSuite || std::ranges::any_of(asked.words, [&](const auto& word) {
          return word == shape.full_name() ||
                 word == fmt::format("{}.{}", shape.op->name, shape.full_name());
        }))
      alone.insert(shape.full_name());
  for (const std::string& file : asked.files) alone.insert(file_row_name(file, asked.files));
  return alone;
}

void bench_named(const BenchArgs& args, const std::vector<NamedShape>& shapes,
                 const BenchSettings& settings, const Globals& g, nlohmann::json& out) {
  BenchOptions options;
  if (!settings.contracts.empty()) {
    options.contract = settings.contracts[0];
    options.also.assign(settings.contracts.begin() + 1, settings.contracts.end());
  }
  ShapeBenchOptions how;
  how.frameworks = settings.frameworks;
  for (const RunnerTarget& target : settings.frameworks) how.framework_words.push_back(target.text);
  options.vs = settings.libraries;
  options.kernels = args.kernels;
  options.threads = g.threads;
  options.isa = g.isa;
  options.timing = settings.timing;
  options.errors = !args.no_errors;
  how.thread_counts = settings.thread_counts;
  how.state = args.state;
  how.sort = parse_bench_order(args.sort);
  how.wide = args.wide;
  how.pin = !args.no_pin;
  bench_shapes(shapes, options, how, out);
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
int bench_in_runs(const BenchArgs& args, const std::set<std::string>& alone,
                  nlohmann::json& record) {
  const bool two = !args.against.empty();
  const int runs = args.runs > 1 ? static_cast<int>(args.runs) : 5;
  const BenchRuns how = these_runs(runs, args.against, args.state);
  const BenchSides sides = run_benches(how);
  nlohmann::json& out = record["bench"] = merged_benches(sides.own);
  if (sides.interrupted) out["complete"] = false;
  print_bench_rows(out, parse_bench_order(args.sort), args.wide);
  fmt::print("\n{} run{}, each a process of its own; spread is over all their repetitions\n",
             sides.own.size(), sides.own.size() == 1 ? "" : "s");
  if (out["load"].value("noisy", false))
    fmt::print("the machine was noisy: other programs took {:.0f} % of its processor time\n",
               100 * out["load"]["others"].get<double>());
  print_skipped(out);
  summarize_bench(out);
  bool holds = timed_what_was_asked(out, alone);
  if (two && !sides.other.empty()) {
    fmt::print("\nA is {}, B is {}\n\n", args.against, how.program);
    if (const nlohmann::json other = merged_benches(sides.other);
        out["rows"].empty() || other["rows"].empty()) {
      fmt::print("nothing was timed by {}\n", out["rows"].empty() ? "B" : "A");
      print_skipped(other);
      holds = false;
    } else {
      holds = compare_benches(BenchRecords{{args.against}, sides.other},
                              BenchRecords{{how.program}, sides.own}, record["compare"]) &&
              holds;
    }
  }
  if (!out.value("complete", true)) {
    fmt::print("\ninterrupted: {} of {} runs are kept{}\n", sides.own.size(), runs,
               args.state.empty() ? "; with --state DIR they go on where they stopped" : "");
    return static_cast<int>(ErrorKind::interrupted);
  }
  return holds ? 0 : 1;
}

int bench(const Options& declared, BenchArgs& args, const Globals& g, nlohmann::json& record) {
  const BenchAsked asked = asked_of(args);
  const BenchSettings settings = check_bench(declared, args, asked);
  if (asked.compare) {
    const BenchRecords a = read_benches(args.compare[0]), b = read_benches(args.compare[1]);
    return compare_benches(a, b, record["compare"]) ? 0 : 1;
  }
  if (asked.order) {
    args.order.vs = settings.libraries;
    for (const RunnerTarget& target : settings.frameworks) args.order.vs.push_back(target.text);
    return bench_order(args.order, g, record["order"]);
  }
  if (g.device == Device::cuda && (asked.functions || asked.shapes || args.import))
    throw usage_error(
        "bench --device cuda times whole networks (model:NAME, model files); operations on a GPU "
        "are timed by bench/gpu_evidence.sh, interleaved with cuBLAS and cuDNN");
  std::vector<NamedShape> shapes;
  if (asked.shapes) shapes = shapes_of(args, asked);
  const std::set<std::string> alone = asked_alone(asked, shapes);
  if (args.runs > 1 || !args.against.empty()) return bench_in_runs(args, alone, record);
  nlohmann::json& out = record["bench"];
  out["started"] = now_text();
  out["rows"] = nlohmann::json::array();
  out["summary"] = nlohmann::json::object();
  bool well = true;
  if (!asked.files.empty()) {
    FileBenchOptions options{.data = args.data, .samples = args.samples, .import = args.import};
    options.alone = asked.files.size() == 1 && !asked.functions && !asked.shapes;
    if (!settings.batches.empty()) options.batches = settings.batches;
    if (!settings.contracts.empty()) options.network.contract = settings.contracts[0];
    options.network.threads = g.threads;
    options.network.isa = g.isa;
    options.network.device = g.device;
    options.network.rounds = static_cast<int>(args.repetitions);
    options.network.most_time_s = args.most_time_s;
    options.network.vs = settings.frameworks;
    well = bench_files(asked.files, options, out);
  }
  if (asked.functions) {
    FunctionBenchOptions options;
    for (const std::string& library : settings.libraries)
      if (library == "glibc" || library == "onednn") options.vs.push_back(library);
    options.threads = g.threads;
    options.isa = g.isa;
    options.errors = !args.no_errors;
    options.timing = settings.timing;
    bench_functions(options, out);
  }
  if (asked.shapes) bench_named(args, shapes, settings, g, out);
  if (!out.value("complete", true)) return static_cast<int>(ErrorKind::interrupted);
  return well && timed_what_was_asked(out, alone) ? 0 : 1;
}

}  // namespace

Action bench_command(Options& options) {
  auto args = std::make_shared<BenchArgs>();
  declare_bench(options, *args);
  return [args, &options](const Globals& g) {
    nlohmann::json record = base_record(g.command_line, g.isa);
    const int code = bench(options, *args, g, record);
    if (!g.json_path.empty()) write_record(g.json_path, record);
    return code;
  };
}

}  // namespace etalon::cli
