#include "bench/micro/order_search.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>

#include "bench/compare/verdict.h"
#include "bench/micro/first_sample.h"
#include "bench/micro/framework_peers.h"
#include "bench/runners/process.h"
#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "importers/importers.h"
#include "kernels/kernels.h"

namespace etalon {
namespace {

namespace fs = std::filesystem;

// Position of a float among all floats, so that neighbours differ by 1.
double place_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return (bits >> 31) != 0 ? -static_cast<double>(bits & 0x7fffffffU) : static_cast<double>(bits);
}

// The variables by which libraries let their instruction set be lowered, and the word that says so.
struct Lowered {
  std::string_view library, how;
  std::vector<std::pair<std::string, std::string>> environment;
};
const std::vector<Lowered>& lowered() {
  static const std::vector<Lowered> rows = {
      {"onednn", "AVX2", {{"ONEDNN_MAX_CPU_ISA", "AVX2"}}},
      {"openblas", "Haswell", {{"OPENBLAS_CORETYPE", "Haswell"}}},
      {"pytorch",
       "AVX2",
       {{"ONEDNN_MAX_CPU_ISA", "AVX2"},
        {"ATEN_CPU_CAPABILITY", "avx2"},
        {"OPENBLAS_CORETYPE", "Haswell"}}}};
  return rows;
}
const Lowered* lowered_of(std::string_view library) {
  for (const Lowered& row : lowered())
    if (row.library == library) return &row;
  return nullptr;
}

// Variables that processes started from here inherit, taken back at the end.
class Environment {
 public:
  explicit Environment(const std::vector<std::pair<std::string, std::string>>& set) {
    for (const auto& [name, value] : set) {
      const char* before = std::getenv(name.c_str());
      before_.emplace_back(name, before == nullptr ? std::optional<std::string>() : before);
      setenv(name.c_str(), value.c_str(), 1);
    }
  }
  ~Environment() {
    for (const auto& [name, value] : before_)
      if (value)
        setenv(name.c_str(), value->c_str(), 1);
      else
        unsetenv(name.c_str());
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::vector<std::pair<std::string, std::optional<std::string>>> before_;
};

// A finding that Ctrl-C or an error comes into leaves no folder behind.
class Unfinished {
 public:
  explicit Unfinished(std::string folder) : folder_(std::move(folder)) {}
  ~Unfinished() {
    std::error_code none;
    if (!folder_.empty()) fs::remove_all(folder_, none);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;
  void keep() { folder_.clear(); }

 private:
  std::string folder_;
};

struct Call {
  NamedShape shape;
  std::vector<Tensor> inputs;
  std::vector<Tensor> shared() const {
    std::vector<Tensor> list;
    for (const Tensor& t : inputs) list.push_back(t.share());
    return list;
  }
  // The first sample by itself.
  Call alone() const {
    Call one{shape, shared()};
    one.inputs[0] = row_of(inputs[0], 0);
    one.shape.inputs[0].shape = one.inputs[0].shape();
    return one;
  }
};

OpRun run_row(const Call& call, const std::string& kernel, int threads, Isa isa, bool truth = false,
              const Contract& contract = Contract::seq()) {
  std::vector<const Tensor*> in;
  for (const Tensor& t : call.inputs) in.push_back(&t);
  RunOptions options;
  options.contract = contract;
  options.threads = threads;
  options.isa = isa;
  options.kernels = kernel;
  return run_op(*call.shape.op, call.shape.params, in, all_kernels(), options, truth);
}

class Search {
 public:
  explicit Search(const OrderSearch& search) : s_(search) {
    std::error_code fault;
    fs::create_directories(s_.folder, fault);
    if (!fault && !fs::is_directory(s_.folder, fault))
      fault = std::make_error_code(std::errc::not_a_directory);
    if (fault) throw bad_input("{}: the folder cannot be made: {}", s_.folder, fault.message());
    for (NamedShape& shape : load_shapes())
      if (shape.suite == "vendor_order") {
        Call call{std::move(shape), {}};
        call.inputs = shape_inputs(call.shape);
        calls_.push_back(std::move(call));
      }
  }

  OrderResult run() {
    try {
      for (const std::string& library : s_.libraries) search_library(library);
      for (const std::string& framework : s_.frameworks) search_framework(framework);
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::interrupted || result_.tried == 0) throw;
      result_.interrupted = true;
    }
    return std::move(result_);
  }

 private:
  bool wanted(const std::string& who, const std::string& varied) const {
    return s_.all || !found_.contains(who + " " + varied);
  }

  void search_library(const std::string& library) {
    std::set<std::string> reasons;
    bool any = false;
    for (const Call& call : calls_)
      for (const KernelRow* row : all_kernels().rows_of(call.shape.op->name)) {
        if (row->promise != Promise::vendor || !row->name.starts_with(library + ".")) continue;
        check_interrupt();
        const std::string kernel(row->name);
        if (s_.progress) s_.progress(kernel + " " + call.shape.full_name());
        try {
          const Tensor base = output(run_row(call, kernel, 1, detect_isa()));
          any = true;
          const std::string version = row->version == nullptr ? "" : row->version();
          if (s_.threads > 1)
            compare(library, version, kernel, call, "threads", "1 thread", base,
                    fmt::format("{} threads", s_.threads),
                    output(run_row(call, kernel, s_.threads, detect_isa())));
          compare(library, version, kernel, call.alone(), "batch", "in the batch", row_of(base, 0),
                  "alone", output(run_row(call.alone(), kernel, 1, detect_isa())));
          if (const Lowered* low = lowered_of(library); low != nullptr && wanted(library, "isa"))
            compare(library, version, kernel, call, "isa", "this machine's instructions", base,
                    std::string(low->how), in_process(call, kernel, *low));
        } catch (const Error& e) {
          if (e.kind() != ErrorKind::usage && e.kind() != ErrorKind::missing) throw;
          reasons.insert(e.what());
        }
      }
    if (!any)
      result_.absent.push_back(
          fmt::format("{}: {}", library, reasons.empty() ? "not in this build" : *reasons.begin()));
  }

  static Tensor output(OpRun run) { return std::move(run.outputs[0]); }

  // The same call by this program in a process whose library is told of another processor.
  Tensor in_process(const Call& call, const std::string& kernel, const Lowered& low) {
    const std::string work = (fs::path(s_.folder) / "call").string();
    const fs::path folder = work;
    fs::create_directories(folder);
    save_model(model_of(call.shape, call.shared(), true), (folder / "call.onnx").string());
    store((folder / "x.npy").string(), call.inputs[0]);
    const std::string answer = (folder / "answer.npy").string();
    fs::remove(answer);
    Process process({.command = {s_.program, "run", (folder / "call.onnx").string(), "-i",
                                 "x=" + (folder / "x.npy").string(), "--kernels", kernel,
                                 "--threads", "1", "-o", answer},
                     .environment = low.environment});
    std::string line;
    while (process.receive_line(line, Seconds(120)) == Process::Status::line) {
    }
    if (!process.wait_for_end(Seconds(10)) || !fs::exists(answer))
      throw missing("{}: the process for {} failed: {}", kernel, low.how, process.error_tail(300));
    Tensor got = std::move(load_tensors(answer).at(0).tensor);
    fs::remove_all(folder);
    return got;
  }

  void search_framework(const std::string& text) {
    const RunnerTarget target = parse_target(text);
    const auto ask = [&](const Call& call, int threads, std::string& version) {
      RunnerOptions options;
      options.threads = threads;
      const auto runner = start_runner(target, options);
      version = runner->info().framework + " " + runner->info().version;
      return answer(*runner, call);
    };
    try {
      std::string version;
      RunnerOptions one, many;
      many.threads = s_.threads;
      const auto alone = start_runner(target, one);
      const auto together = s_.threads > 1 ? start_runner(target, many) : nullptr;
      version = alone->info().framework + " " + alone->info().version;
      for (const Call& call : calls_) {
        check_interrupt();
        if (s_.progress) s_.progress(text + " " + call.shape.full_name());
        try {
          const Tensor base = answer(*alone, call);
          if (together != nullptr)
            compare(text, version, text, call, "threads", "1 thread", base,
                    fmt::format("{} threads", s_.threads), answer(*together, call));
          compare(text, version, text, call.alone(), "batch", "in the batch", row_of(base, 0),
                  "alone", answer(*alone, call.alone()));
          if (const Lowered* low = lowered_of(target.runner);
              low != nullptr && wanted(text, "isa")) {
            const Environment set(low->environment);
            std::string unused;
            compare(text, version, text, call, "isa", "this machine's instructions", base,
                    std::string(low->how), ask(call, 1, unused));
          }
        } catch (const RunnerError& e) {
          if (e.status() != RunnerStatus::refused) throw;
        }
      }
    } catch (const RunnerError& e) {
      result_.absent.push_back(e.what());
    }
  }

  static Tensor answer(Runner& runner, const Call& call) {
    const Model model = model_of(call.shape, call.shared(), true);
    runner.load(model);
    TensorMap feeds;
    feeds.emplace("x", call.inputs[0].share());
    return std::move(runner.run(feeds).tensors.begin()->second);
  }

  static void store(const std::string& path, const Tensor& t) {
    TensorList list;
    list.push_back({"", t.share()});
    save_tensors(list, path);
  }

  // `call` gives the inputs of both answers (the first sample alone where the batch varies).
  void compare(const std::string& library, const std::string& version, const std::string& kernel,
               const Call& call, const std::string& varied, const std::string& how_one,
               const Tensor& one, const std::string& how_other, const Tensor& other) {
    ++result_.tried;
    if (hash_tensor(one) == hash_tensor(other) || !wanted(library, varied)) return;
    found_.insert(library + " " + varied);
    OrderFinding f;
    f.library = library;
    f.version = version;
    f.kernel = kernel;
    f.shape = call.shape;
    f.varied = varied;
    f.folder = (fs::path(s_.folder) /
                fmt::format("{}-{}-{}", file_name(kernel), varied, result_.findings.size() + 1))
                   .string();
    fs::create_directories(f.folder);
    Unfinished unfinished(f.folder);
    const auto in_folder = [&](const char* name) { return (fs::path(f.folder) / name).string(); };
    for (std::size_t i = 0; i < call.inputs.size(); ++i)
      store(in_folder(fmt::format("input{}.npy", i).c_str()), call.inputs[i]);
    save_model(model_of(call.shape, call.shared(), true), in_folder("call.onnx"));
    f.one = {how_one, "", "", in_folder("one.npy")};
    f.other = {how_other, "", "", in_folder("other.npy")};
    store(f.one.file, one);
    store(f.other.file, other);
    differences(f, one, other, call);
    explain(f.one, call, one);
    explain(f.other, call, other);
    through_defined(f, call);
    unfinished.keep();
    result_.findings.push_back(std::move(f));
  }

  static std::string file_name(std::string text) {
    for (char& c : text)
      if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '.') c = '_';
    return text;
  }

  void differences(OrderFinding& f, const Tensor& one, const Tensor& other,
                   const Call& call) const {
    const auto a = one.data<float>(), b = other.data<float>();
    f.elements = one.numel();
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i])) continue;
      ++f.differ;
      const double distance = std::fabs(place_of(a[i]) - place_of(b[i]));
      if (distance <= f.max_distance) continue;
      f.max_distance = distance;
      f.worst = static_cast<std::int64_t>(i);
      f.worst_one = a[i];
      f.worst_other = b[i];
    }
    const OpRun exact = run_row(call, "", s_.threads, s_.isa, true, Contract::exact_preset());
    f.worst_exact = exact.truth.at(0).data<double>()[static_cast<std::size_t>(f.worst)];
  }

  void explain(OrderAnswer& a, const Call& call, const Tensor& got) const {
    Layer layer{call.shape.op, call.shape.params, call.shared()};
    JudgeOptions options;
    options.registry = &all_kernels();
    options.threads = s_.threads;
    options.isa = s_.isa;
    std::vector<Tensor> outputs;
    outputs.push_back(got.share());
    const Judgement j = judge_layer(layer, outputs, options).at(0);
    a.sentence = j.sentence;
    if (j.verdict == Verdict::identical) a.order = j.contract;
  }

  // Our kernel, varied the same way: threads, neighbours in the batch, instruction set.
  void through_defined(OrderFinding& f, const Call& call) const {
    const OpRun one = run_row(call, "", 1, s_.isa);
    f.defined_kernel = std::string(one.kernel->name);
    f.defined_one = to_string(hash_tensor(one.outputs[0]));
    if (f.varied == "threads") {
      f.defined_other = to_string(hash_tensor(run_row(call, "", s_.threads, s_.isa).outputs[0]));
    } else if (f.varied == "isa") {
      const OpRun low = run_row(call, "", 1, std::min(s_.isa, Isa::avx2));
      f.defined_kernel += fmt::format(" and {}", low.kernel->name);
      f.defined_other = to_string(hash_tensor(low.outputs[0]));
    } else {
      for (const Call& whole : calls_)
        if (whole.shape.full_name() == call.shape.full_name())
          f.defined_other =
              to_string(hash_tensor(row_of(run_row(whole, "", 1, s_.isa).outputs[0], 0)));
    }
  }

  const OrderSearch& s_;
  std::vector<Call> calls_;
  std::set<std::string> found_;
  OrderResult result_;
};

}  // namespace

OrderResult search_orders(const OrderSearch& search) { return Search(search).run(); }

}  // namespace etalon
