#include "bench/lab/site.h"

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "bench/data.h"
#include "bench/lab/problem.h"
#include "bench/micro/machine_watch.h"
#include "bench/micro/timing.h"
#include "bench/report/version.h"
#include "bench/resources.h"
#include "engine/core/cpu.h"
#include "engine/core/error.h"
#include "engine/core/file.h"
#include "kernels/kernels.h"

namespace etalon::lab {
namespace {

using nlohmann::json;

constexpr std::array kFiles{"index.html", "lab.css",    "engine.js", "draw.js",
                            "lab.js",     "figures.js", "lessons.js"};

void write_file(const std::filesystem::path& path, std::string_view text) {
  FileWriter out(path.string());
  out.write(text);
  out.commit();
}

// RFC 4648. A page that is opened from a folder may load a script, but not fetch a binary.
std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63U] : '=';
  }
  return text;
}

// The first test image of each digit.
json digits() {
  const Dataset data = load_dataset("mnist");
  const auto pixels = data.images.data<float>();
  json list = json::array();
  for (std::int64_t digit = 0; digit < 10; ++digit)
    for (std::size_t i = 0; i < data.labels.size(); ++i) {
      if (data.labels[i] != digit) continue;
      json grey = json::array();
      for (std::size_t p = 0; p < 784; ++p) grey.push_back(std::lround(pixels[i * 784 + p] * 255));
      list.push_back({{"width", 28}, {"height", 28}, {"grey", std::move(grey)}});
      break;
    }
  return list;
}

// One algorithm's best kernel on one problem, ready to run.
struct Candidate {
  Candidate(const json& question, int thread_count)
      : p(read_problem(question, std::numeric_limits<std::int64_t>::max())),
        params(p.params),
        inputs{{p.x.type(), nullptr, true}, {p.w.type(), &p.w, true}},
        threads(thread_count) {
    problem.op = p.op;
    problem.params = &params;
    problem.inputs = inputs;
    problem.outputs = {&p.y, 1};
    problem.contract = &p.contract;
    problem.isa = detect_isa();
    row = all_kernels().select(problem).row;
    if (row == nullptr) return;
    if (row->prepare != nullptr) prepared = row->prepare(problem, threads);
    y = Tensor::uninitialized(DType::f32, p.y.shape);
  }
  Candidate(const Candidate&) = delete;
  // A definition computes one output after the other: its time says nothing of the algorithm.
  bool worth_timing() const { return row != nullptr && !row->name.ends_with("definition"); }
  void run() {
    KernelCall call;
    call.problem = &problem;
    call.inputs = given;
    call.outputs = {&y, 1};
    call.threads = threads;
    call.prepared = prepared.get();
    row->run(call);
  }

  ConvProblem p;
  Params params;
  InferInput inputs[2];
  const Tensor* given[2] = {&p.x, &p.w};
  Problem problem;
  const KernelRow* row = nullptr;
  Prepared prepared;
  Tensor y;
  int threads;
};

// One layer with kernels of growing extent, every algorithm that applies, interleaved.
constexpr std::int64_t kTimedChannels = 32, kTimedSide = 56;

json native_times(std::int64_t kernel, int threads) {
  const json shape = {{"channels", kTimedChannels},
                      {"height", kTimedSide},
                      {"width", kTimedSide},
                      {"filters", kTimedChannels},
                      {"kernel", kernel},
                      {"pad", kernel / 2},
                      {"data", "noise"}};
  std::vector<std::string> contracts{"seq",         "order=lanes:8", "algo=im2col",
                                     "algo=fft:16", "algo=fft:32",   "exact"};
  for (const int m : {2, 4, 6})
    if (kernel <= 5) contracts.push_back(fmt::format("algo=winograd:{}/{}", m, kernel));
  std::vector<std::unique_ptr<Candidate>> all;
  std::vector<TimedCandidate> timed;
  for (const std::string& contract : contracts) {
    auto c = std::make_unique<Candidate>(with_contract(shape, contract), threads);
    if (!c->worth_timing()) continue;
    timed.push_back({contract, [c = c.get()] { c->run(); }});
    all.push_back(std::move(c));
  }
  TimingOptions options;
  options.threads = threads;
  options.repetitions = 5;
  options.min_time_s = 0.01;
  const std::vector<Timing> times = time_interleaved(timed, options);
  json rows = json::array();
  std::string command = fmt::format(
      "etalon bench --shape 'conv f32[1,{0},{1},{1}] f32[{0},{0},{2},{2}] pads_begin={3}x{3} "
      "pads_end={3}x{3}' --threads {4}",
      kTimedChannels, kTimedSide, kernel, kernel / 2, threads);
  for (std::size_t i = 0; i < timed.size(); ++i) {
    command += fmt::format(" -c '{}'", timed[i].name);
    rows.push_back({{"contract", timed[i].name},
                    {"kernel", all[i]->row->name},
                    {"median_s", times[i].median_s},
                    {"spread", times[i].spread},
                    {"ratio", times[i].median_s / times[0].median_s}});
  }
  return {{"kernel", kernel}, {"command", std::move(command)}, {"rows", std::move(rows)}};
}

}  // namespace

std::string wasm_path() {
  for (const std::string& root : resource_roots())
    for (const char* place : {"bench/lab/lab.wasm", "build/wasm/lab.wasm"}) {
      const std::filesystem::path path = std::filesystem::path(root) / place;
      std::error_code error;
      if (std::filesystem::exists(path, error)) return path.string();
    }
  throw missing(
      "the engine was not compiled to WebAssembly (lab.wasm); './etalon lab conv' in a "
      "checkout does it, or: cmake --preset wasm; cmake --build --preset wasm");
}

std::string write_site(const SiteOptions& options) {
  const std::string wasm = read_text_file(wasm_path());
  const std::filesystem::path folder = options.folder;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw bad_input("{}: the folder cannot be made: {}", options.folder, error.message());
  for (const char* file : kFiles)
    write_file(folder / file,
               read_text_file(resource_path(fmt::format("bench/lab/site/{}", file))));
  write_file(folder / "wasm.js", fmt::format("const ETALON_WASM = '{}';\n", base64(wasm)));
  json data;
  data["build"] = fmt::format("Etalon {} ({}), engine compiled to WebAssembly ({} KiB).", version(),
                              commit(), wasm.size() / 1024);
  data["command"] = options.command;
  data["digits"] = digits();
  data["native"] = json::array();
  const MachineWatch watch;
  if (options.times)
    for (const std::int64_t kernel : {3, 5, 7, 9, 11})
      data["native"].push_back(native_times(kernel, options.threads));
  const std::string noise = noise_text(watch.load());
  data["native_note"] = fmt::format(
      "One image of {0} x {1} x {1}, {0} filters, output as large as the input, {2} thread{3}, on "
      "{4}; median of interleaved repetitions, weights packed or transformed before the clock.{5}",
      kTimedChannels, kTimedSide, options.threads, options.threads == 1 ? "" : "s", cpu_model(),
      noise.empty() ? "" : " When it was timed " + noise + ".");
  write_file(folder / "data.js", fmt::format("const ETALON_DATA = {};\n", data.dump()));
  return (folder / "index.html").string();
}

}  // namespace etalon::lab
