#include "bench/lab/site.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "bench/data.h"
#include "bench/lab/problem.h"
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

constexpr std::array kFiles{"index.html", "lab.css", "engine.js", "draw.js", "lab.js"};

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
      for (std::size_t p = 0; p < 784; ++p)
        grey.push_back(static_cast<int>(pixels[i * 784 + p] * 255 + 0.5F));
      list.push_back({{"width", 28}, {"height", 28}, {"grey", std::move(grey)}});
      break;
    }
  return list;
}

// Each algorithm's best kernel on one layer, interleaved; what a contract is refused with is left
// out.
json native_times(int threads) {
  const json shape = {{"channels", 64}, {"height", 32}, {"width", 32},    {"filters", 64},
                      {"kernel", 3},    {"pad", 1},     {"data", "noise"}};
  struct Candidate {
    ConvProblem p;
    Params params;
    InferInput inputs[2];
    const Tensor* given[2];
    Problem problem;
    const KernelRow* row;
    Prepared prepared;
    Tensor y;
  };
  std::vector<std::unique_ptr<Candidate>> all;
  std::vector<TimedCandidate> timed;
  for (const char* contract : {"seq", "order=lanes:8", "algo=im2col", "algo=winograd:2/3",
                               "algo=winograd:4/3", "algo=winograd:6/3", "algo=fft:16", "exact"}) {
    auto c = std::make_unique<Candidate>();
    c->p = read_problem(with_contract(shape, contract));
    c->params = Params(c->p.params);
    c->inputs[0] = {c->p.x.type(), nullptr, true};
    c->inputs[1] = {c->p.w.type(), &c->p.w, true};
    c->given[0] = &c->p.x;
    c->given[1] = &c->p.w;
    c->problem.op = &conv_op();
    c->problem.params = &c->params;
    c->problem.inputs = c->inputs;
    c->problem.outputs = {&c->p.y, 1};
    c->problem.contract = &c->p.contract;
    c->problem.isa = detect_isa();
    c->row = all_kernels().select(c->problem).row;
    // A definition computes one output after the other: its time says nothing of the algorithm.
    if (c->row == nullptr || c->row->name.ends_with("definition")) continue;
    if (c->row->prepare != nullptr) c->prepared = c->row->prepare(c->problem, threads);
    c->y = Tensor::uninitialized(DType::f32, c->p.y.shape);
    timed.push_back({contract, [c = c.get(), threads] {
                       KernelCall call;
                       call.problem = &c->problem;
                       call.inputs = c->given;
                       call.outputs = {&c->y, 1};
                       call.threads = threads;
                       call.prepared = c->prepared.get();
                       c->row->run(call);
                     }});
    all.push_back(std::move(c));
  }
  TimingOptions options;
  options.threads = threads;
  const std::vector<Timing> times = time_interleaved(timed, options);
  json rows = json::array();
  for (std::size_t i = 0; i < timed.size(); ++i)
    rows.push_back({{"contract", timed[i].name},
                    {"kernel", all[i]->row->name},
                    {"median_s", times[i].median_s},
                    {"spread", times[i].spread},
                    {"ratio", times[i].median_s / times[0].median_s}});
  return rows;
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
  data["native"] = options.times ? native_times(options.threads) : json::array();
  data["native_note"] = fmt::format(
      "One image of 64 x 32 x 32, 64 filters of 3 x 3, padding 1, {} thread{}, on {}; median of "
      "interleaved repetitions, weights packed before the clock.",
      options.threads, options.threads == 1 ? "" : "s", cpu_model());
  write_file(folder / "data.js", fmt::format("const ETALON_DATA = {};\n", data.dump()));
  return (folder / "index.html").string();
}

}  // namespace etalon::lab
