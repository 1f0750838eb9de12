// What kernels take: ours and the vendors', interleaved, on the device's clock, copies
// to and from the host left out.
//
// Each contender is written down as a CUDA graph of as many runs as take about 0.2 ms, so that what
// a library does on the host (descriptors, choices) is not counted, for either side. A library that
// cannot be written down is timed run by run, and the record says so.
#include <algorithm>
#include <functional>
#include <map>
#include <memory>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/gpu/agreement.h"
#include "tests/gpu/stages.h"

namespace etalon {
namespace {

// A problem whose tensors lie on the device.
struct Placed {
  Call call;
  std::unique_ptr<cuda::CallOnDevice> on_device;
  Placed(const OpCase& c, const Contract& contract) : call(c, contract) {
    host = call.call();
    on_device = std::make_unique<cuda::CallOnDevice>(host);
  }
  KernelCall host;
};

struct Contender {
  std::string name, contract;
  bool ours = false, keeps_f32 = true;
  std::function<void()> put;  // on the stream
  std::function<std::string()> note;
  std::unique_ptr<cuda::Work> work;
  void* graph = nullptr;
  int runs = 1;  // in the graph
  int rounds = 0;
  std::vector<double> seconds;
  std::string failed, no_graph;

  Contender() = default;
  Contender(Contender&&) = default;
  Contender& operator=(Contender&&) = delete;
  ~Contender() {
    if (graph != nullptr) static_cast<void>(cuda::api().drop_graph(graph));
  }

  void write_down(double once_s) {
    constexpr double kEnough = 200e-6;
    runs = static_cast<int>(std::clamp(kEnough / std::max(once_s, 1e-7), 1.0, 32.0));
    cuda::check(cuda::api().begin_capture(cuda::stream()), "cudaStreamBeginCapture");
    try {
      for (int i = 0; i < runs; ++i) put();
    } catch (const Error& e) {
      no_graph = e.what();
    }
    void* made = nullptr;
    const int code = cuda::api().end_capture(cuda::stream(), &made);
    if (no_graph.empty() && code != 0) no_graph = cuda::api().text(code);
    if (code == 0 && no_graph.empty())
      graph = made;
    else if (code == 0 && made != nullptr)
      static_cast<void>(cuda::api().drop_graph(made));
    if (graph == nullptr) runs = 1;
  }
  void launch() {
    if (graph == nullptr)
      put();
    else
      cuda::check(cuda::api().launch_graph(graph, cuda::stream()), "cudaGraphLaunch");
  }
};

// Of ours all that the placed contract has but definitions behind a faster row; of the
// vendors all.
void add_rows(const OpCase& c, Placed& placed, const char* contract, bool vendors,
              std::vector<Contender>& to) {
  bool have_ours = false;
  for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
    const bool ours = row->promise == Promise::defined;
    if (row->device != Device::cuda ||
        (ours ? have_ours && row->name.ends_with(".definition") : !vendors) ||
        (row->refuse != nullptr && row->refuse(placed.call.problem)))
      continue;
    const cuda::DeviceRow* const device_row = cuda::find_device_row(*row);
    // The stage's time is short: of a library's kernels, those that are there.
    if (device_row->compiles != nullptr && device_row->compiles(placed.call.problem)) continue;
    have_ours = have_ours || ours;
    Contender k;
    k.name = row->name;
    k.contract = ours ? contract : "";
    k.ours = ours;
    k.keeps_f32 = true;
    for (const char* other : {"tf32", "bf16x9", "f64", "tensor_core"})
      k.keeps_f32 = k.keeps_f32 && k.name.find(other) == k.name.npos;
    k.work = std::make_unique<cuda::Work>();
    if (device_row->note != nullptr)
      k.note = [=, &placed] { return device_row->note(placed.call.problem); };
    k.put = [row = device_row, on = placed.on_device.get(), work = k.work.get()] {
      work->begin();
      row->enqueue(on->call(), *work);
    };
    to.push_back(std::move(k));
  }
}

void time_shape(const OpCase& c, int rounds, json& result) {
  // Where a tensor core may compute the first pass, the correctly rounded row stands beside.
  const bool exact_too = c.op->name == "gemm" || c.op->name == "matmul" || c.op->name == "conv";
  Placed seq(c, Contract::seq());
  std::vector<Contender> contenders;
  add_rows(c, seq, "seq", true, contenders);
  std::unique_ptr<Placed> exact;
  if (exact_too) {
    exact = std::make_unique<Placed>(c, Contract::exact_preset());
    add_rows(c, *exact, "exact", false, contenders);
  }
  // F(4x4), the tiles that cuDNN's kernels of this algorithm have.
  std::unique_ptr<Placed> winograd;
  if (c.op->name == "conv") {
    const Shape& w = seq.call.inputs[1].shape();
    const std::string algorithm = fmt::format("winograd:4/{}", w[w.rank() - 1]);
    if (w.rank() == 4 && w[2] == w[3] && (w[3] == 3 || w[3] == 5)) {
      winograd = std::make_unique<Placed>(c, Contract::parse("algo=" + algorithm));
      add_rows(c, *winograd, "winograd", false, contenders);
    }
  }
  // Memory's own speed: as many bytes, moved.
  const KernelCall& on = seq.on_device->call();
  if (on.inputs.size() == 1 && on.input(0).size_bytes() == on.output(0).size_bytes()) {
    Contender k;
    k.name = "copy";
    k.keeps_f32 = false;
    k.put = [&on] {
      cuda::check(
          cuda::api().on_device(cuda::device_floats(on.output(0)), on.input(0).bytes().data(),
                                on.input(0).size_bytes(), cuda::stream()),
          "cudaMemcpyAsync on the device");
    };
    contenders.push_back(std::move(k));
  }
  cuda::DeviceTimer timer;
  for (Contender& k : contenders)
    k.failed = failure_of([&] {
      double once = 0;
      constexpr double kLong = 0.1, kEach = 0.5;  // s
      for (int warm = 0; warm < 3 && once < kLong; ++warm) {
        timer.start();
        k.put();
        once = timer.stop_s();
      }
      k.write_down(once);
      k.launch();
      cuda::synchronize();
      k.rounds = once * rounds < kEach ? rounds : std::max(3, static_cast<int>(kEach / once));
    });
  for (int i = 0; i < rounds; ++i)
    for (Contender& k : contenders) {
      if (!k.failed.empty() || i >= k.rounds) continue;
      k.failed = failure_of([&] {
        timer.start();
        k.launch();
        k.seconds.push_back(timer.stop_s() / k.runs);
      });
    }
  result["rounds"] = rounds;
  std::map<std::string, double> ours;  // the least of each contract
  double copy_s = 0, best = 0, best_winograd = 0, best_implicit = 0;
  for (const Contender& k : contenders) {
    const bool plain = !k.ours || k.contract == "seq";
    json& entry = result["kernels"][plain ? k.name : k.name + " " + k.contract];
    if (!k.failed.empty()) {
      entry["failed"] = k.failed;
      continue;
    }
    const double m = median(k.seconds);
    entry["median_s"] = m;
    const std::string note = k.note ? k.note() : "";
    if (!note.empty()) entry["note"] = note;
    entry["spread"] = *std::ranges::max_element(k.seconds) / *std::ranges::min_element(k.seconds);
    if (k.rounds < rounds) entry["rounds"] = k.rounds;  // one that takes long
    entry["runs_in_graph"] = k.graph == nullptr ? 0 : k.runs;
    if (!k.no_graph.empty()) entry["no_graph"] = k.no_graph;
    if (k.name == "copy") copy_s = m;
    if (k.ours) {
      if (double& least = ours[k.contract]; least == 0 || m < least) {
        least = m;
        result["best_" + k.contract] = k.name;
      }
      continue;
    }
    const auto take = [&](double& least, const char* name) {
      if (!k.keeps_f32 || (least != 0 && m >= least)) return;
      least = m;
      result[name] = k.name;
    };
    take(best, "best_f32");
    if (k.name.find("winograd") != k.name.npos || note.find("winograd") != note.npos)
      take(best_winograd, "best_f32_winograd");
    if (k.name.find(".implicit_") != k.name.npos) take(best_implicit, "best_f32_implicit_gemm");
  }
  const auto ratio = [&](const char* name, const char* contract, double to) {
    if (ours.contains(contract) && to > 0) result[name] = ours[contract] / to;
  };
  ratio("ratio", "seq", best);
  ratio("exact_ratio", "exact", best);
  // The vendor's kernels that sum the same products.
  ratio("implicit_gemm_ratio", "seq", best_implicit);
  ratio("exact_implicit_gemm_ratio", "exact", best_implicit);
  ratio("winograd_ratio", "winograd", best_winograd);
  ratio("ratio_to_copy", "seq", copy_s);
}

// Large products first, then shapes of each op and streams in turn, DeepBench's hundreds behind the
// networks': what the stage's time cuts off is the tail of every op, not an op.
std::vector<OpCase> cases_in_sequence() {
  std::vector<OpCase> cases;
  for (const std::int64_t n : {8192, 4096})
    cases.push_back(parse_op_case(fmt::format("cube.{0} | gemm | | f32[{0},{0}] f32[{0},{0}]", n)));
  std::vector<std::vector<OpCase>> of_ops;
  for (const char* op : {"gemm", "conv", "exp", "tanh", "sigmoid", "relu", "max_pool", "avg_pool",
                         "batch_norm", "lrn", "softmax", "layer_norm", "lstm", "gru"}) {
    of_ops.push_back(shapes_of(op));
    // Without the bias, which cuBLAS does not add.
    for (OpCase& c : of_ops.back())
      if (c.op->name == "gemm" && c.inputs.size() > 2)
        c = parse_op_case(c.line.substr(0, c.line.find_last_of(' ')));
    std::ranges::stable_partition(of_ops.back(),
                                  [](const OpCase& c) { return !c.name.starts_with("deepbench"); });
  }
  // Several times what any cache holds.
  std::vector<OpCase> streams;
  for (const char* op :
       {"relu",  "exp",   "tanh",  "sigmoid",      "silu",       "log",        "gelu",     "erf",
        "sin",   "erfc",  "cos",   "tan",          "softplus",   "asin",       "acos",     "atan",
        "asinh", "acosh", "atanh", "sinh",         "cosh",       "log2",       "log10",    "log1p",
        "exp2",  "expm1", "cbrt",  "rsqrt",        "sqrt",       "reciprocal", "softsign", "mish",
        "elu",   "selu",  "celu",  "hard_sigmoid", "hard_swish", "log_sigmoid"})
    streams.push_back(parse_op_case(fmt::format("stream.64M | {} | | f32[67108864]:wide", op)));
  streams.push_back(
      parse_op_case("stream.64M.tanh | gelu | approximate=tanh | f32[67108864]:wide"));
  of_ops.push_back(std::move(streams));
  // Three products and three convolutions to one of each other op and one stream.
  std::vector<std::size_t> done(of_ops.size());
  for (bool left = true; left;) {
    left = false;
    for (std::size_t op = 0; op < of_ops.size(); ++op)
      for (int i = 0; i < (op < 2 ? 3 : 1) && done[op] < of_ops[op].size(); ++i, left = true)
        cases.push_back(std::move(of_ops[op][done[op]++]));
  }
  return cases;
}

}  // namespace

void run_times(Record& record, std::span<char* const> words) {
  json& list = record.all["times"];
  for (const OpCase& c : cases_in_sequence()) {
    const std::string key = std::string(c.op->name) + " " + c.name;
    if (!words.empty() &&
        std::ranges::none_of(words, [&](const char* word) { return key.find(word) != key.npos; }))
      continue;
    if (Record::has(list, "key", key) || !record.time_left()) continue;
    record.entry(list, {{"key", key}, {"case", c.line}},
                 [&](json& result) { time_shape(c, 20, result); });
  }
}

}  // namespace etalon
