// gpu_evidence: what a machine with a GPU shows, stage by stage, in one JSON object.
//   gpu_evidence OUT.json COMMIT STAGE [SECONDS]
// Reads OUT.json where it is there, adds the stage's results, and writes the file anew after each
// of them, so that what a time limit, a lost device or a crash leaves behind is a whole record of
// what came before; a stage that is started again goes on behind it. No stage starts anything new
// beyond SECONDS. bench/gpu_evidence.sh runs the stages, each in a process of its own.
//   rows          every defined CUDA row, every case of tests/op_cases, six contracts: hashes
//   beside
//                 the CPU's
//   sizes         the tiled products at the sizes of bench/shapes: hashes beside the CPU's kernels
//   networks      output hashes, node by node and as one graph, with the time of one launch
//   tensor_cores  10^8 hostile cases of each format beside the software model
//   vendors       cuBLAS's and cuDNN's rows: largest and mean error in ULP from the exact result
//   times         ours and the vendors' kernels over bench/shapes, interleaved in one run, on the
//                 device's clock, copies left out
//   sanitize      the few cases that compute-sanitizer is to see; no device's name is taken
// Exit code 0: all hashes equal so far; 1: one is not; 4: no device; 5: the device was lost, start
// the stage again.
// The cases' reader stands in a file of tests; nothing of doctest runs here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "engine/models/models.h"
#include "engine/numerics/fp.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/backends/cuda/libraries.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/backends/cuda/tensor_core_check.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;
using nlohmann::json;

namespace {

constexpr const char* kContracts[] = {"seq",      "exact",      "fma=off",
                                      "round=rd", "store=bf16", "subnormals=flush"};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class Record {
 public:
  Record(std::string path, double seconds) : path_(std::move(path)), end_(now_s() + seconds) {
    std::ifstream in(path_);
    if (in) all = json::parse(in, nullptr, false);
    if (!all.is_object()) all = json::object();
  }
  // In place of the file, so that it is whole at any time.
  void write() const {
    const std::string next = path_ + ".next";
    std::ofstream(next) << all.dump(1) << '\n';
    if (std::rename(next.c_str(), path_.c_str()) != 0) throw missing("{} cannot be written", path_);
  }
  // May something new be begun?
  bool time_left() const { return now_s() < end_; }
  // Was `name` done by a process before this one?
  static bool has(const json& list, const char* key, std::string_view name) {
    return list.is_array() && std::ranges::any_of(list, [&](const json& entry) {
             return entry.value(key, "") == name;
           });
  }
  json all;

 private:
  std::string path_;
  double end_;
};

// A CUDA failure that no later call of this process survives.
bool device_is_lost(const Error& e) {
  return e.kind() == ErrorKind::missing &&
         std::string_view(e.what()).find("the device is lost") != std::string_view::npos;
}

// A case with all that a call of a kernel refers to.
struct Call {
  OpCase c;
  Contract contract;
  std::vector<Tensor> inputs;
  std::vector<const Tensor*> in;
  std::vector<InferInput> types;
  std::vector<TensorType> output_types;
  std::vector<Tensor> outputs;
  Problem problem;

  Call(const OpCase& of, const Contract& k) : c(of), contract(k) {
    inputs = case_inputs(c);
    in = pointers(inputs);
    for (const Tensor* t : in)
      types.push_back(t == nullptr ? InferInput{} : InferInput{t->type(), t, true});
    output_types = infer(*c.op, c.params, InferInputs(types));
    for (const TensorType& y : output_types) outputs.push_back(Tensor::zeros(y.dtype, y.shape));
    problem = {.op = c.op,
               .params = &c.params,
               .inputs = types,
               .outputs = output_types,
               .contract = &contract,
               .device = Device::cuda,
               .isa = detect_isa()};
  }
  Call(const Call&) = delete;
  KernelCall call() { return {.problem = &problem, .inputs = in, .outputs = outputs}; }

  OpRun on_cpu(const char* text) const {
    RunOptions options{.contract = Contract::parse(text)};
    options.threads = hardware_threads();
    return run_op(*c.op, c.params, in, all_kernels(), options);
  }
};

std::string hash_of(std::span<const Tensor> outputs) {
  HashStream all;
  for (const Tensor& t : outputs) all.update(t);
  return to_string(all.digest());
}

struct Agreement {
  int compared = 0, equal = 0;
  std::string first_difference, hash;

  // False where the row refuses the case.
  bool compare(const OpCase& c, const KernelRow& row, const char* text) {
    Call call(c, Contract::parse(text));
    if (row.refuse != nullptr && row.refuse(call.problem)) return false;
    row.run(call.call());
    const OpRun want = call.on_cpu(text);
    ++compared;
    hash = hash_of(call.outputs);
    if (hash == hash_of(want.outputs))
      ++equal;
    else if (first_difference.empty())
      first_difference = fmt::format("{} under {}: {}", c.line, text, place(call, want));
    return true;
  }

  static std::string place(const Call& got, const OpRun& want) {
    for (std::size_t o = 0; o < got.outputs.size(); ++o) {
      const auto a = got.outputs[o].bytes(), b = want.outputs[o].bytes();
      const std::size_t size = static_cast<std::size_t>(size_bytes(got.outputs[o].dtype()));
      for (std::size_t at = 0; at < a.size(); at += size)
        if (!std::equal(a.begin() + static_cast<std::ptrdiff_t>(at),
                        a.begin() + static_cast<std::ptrdiff_t>(at + size),
                        b.begin() + static_cast<std::ptrdiff_t>(at))) {
          std::string text = fmt::format("output {} element {}: ", o, at / size);
          for (const auto& bytes : {a, b}) {
            for (std::size_t i = size; i-- > 0;)
              text += fmt::format("{:02x}", static_cast<unsigned>(bytes[at + i]));
            text += &bytes == &a ? ", " : "";
            text += ' ';
          }
          return text + "(device, CPU)";
        }
    }
    return "types";
  }
};

// A failure that is not the device's end is a result like any other.
template <class F>
std::string failure_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    if (device_is_lost(e)) throw;
    return e.what();
  }
  return {};
}

void run_rows(Record& record, bool& equal) {
  json& list = record.all["rows"];
  for (const KernelRow* row : all_kernels().all()) {
    if (row->device != Device::cuda || row->promise != Promise::defined) continue;
    if (Record::has(list, "kernel", row->name) || !record.time_left()) continue;
    // Entered before it runs: a row that loses the device is not tried again.
    list.push_back({{"kernel", row->name}, {"failed", "the device was lost"}});
    record.write();
    Agreement a;
    const std::string failed = failure_of([&] {
      for (const char* contract : kContracts)
        for (const OpCase& c : op_cases())
          if (c.op->name == row->op) a.compare(c, *row, contract);
    });
    equal = equal && failed.empty() && a.compared == a.equal;
    list.back() = {
        {"kernel", row->name}, {"compared", a.compared}, {"equal", a.equal}, {"last_hash", a.hash}};
    if (!a.first_difference.empty()) list.back()["first_difference"] = a.first_difference;
    if (!failed.empty()) list.back()["failed"] = failed;
    record.write();
    fmt::print(stderr, "{}: {} of {}{}\n", row->name, a.equal, a.compared,
               failed.empty() ? "" : ", " + failed);
  }
}

// bench/shapes/OP.txt as lines of cases: NAME TYPES parameters, of which 3x3 is a list.
std::vector<OpCase> shapes_of(const char* op) {
  std::vector<OpCase> cases;
  std::ifstream file(std::string(ETALON_SOURCE_DIR) + "/bench/shapes/" + op + ".txt");
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::string name, types, params;
    std::size_t at = 0;
    while (at < line.size()) {
      const std::size_t end = std::min(line.find(' ', at), line.size());
      std::string word = line.substr(at, end - at);
      at = end + 1;
      if (word.empty()) continue;
      if (name.empty()) {
        name = word;
      } else if (const std::size_t equals = word.find('='); equals == std::string::npos) {
        types += " " + word;
      } else {
        std::string value = word.substr(equals + 1);
        const bool list = value.find_first_not_of("0123456789x") == std::string::npos &&
                          value.find('x') != std::string::npos;
        std::ranges::replace(value, 'x', list ? ',' : 'x');
        params += " " + word.substr(0, equals + 1) + (list ? "[" + value + "]" : value);
      }
    }
    const std::string text = fmt::format("{} | {} |{} |{}", name, op, params, types);
    // Types that a case cannot say (a layout of its own) are another program's.
    if (failure_of([&] { cases.push_back(parse_op_case(text)); }).empty()) continue;
    fmt::print(stderr, "left out: {}\n", text);
  }
  return cases;
}

void run_sizes(Record& record, bool& equal) {
  json& list = record.all["sizes"];
  for (const char* op : {"gemm", "conv", "softmax", "layer_norm", "max_pool", "lstm"})
    for (const OpCase& c : shapes_of(op)) {
      const std::string name = std::string(op) + " " + c.name;
      if (Record::has(list, "shape", name) || !record.time_left()) continue;
      // The fastest row that takes it, as a network would have it.
      const double began = now_s();
      std::string kernel;
      Agreement a;
      const std::string failed = failure_of([&] {
        Call call(c, Contract::seq());
        for (const KernelRow* row : all_kernels().rows_of(op))
          if (row->device == Device::cuda && row->promise == Promise::defined &&
              a.compare(c, *row, "seq")) {
            kernel = row->name;
            break;
          }
      });
      if (kernel.empty() && failed.empty()) continue;
      equal = equal && failed.empty() && a.compared == a.equal;
      list.push_back({{"shape", name},
                      {"kernel", kernel},
                      {"equal", failed.empty() && a.equal == 1},
                      {"hash", a.hash},
                      {"seconds", now_s() - began}});
      if (!a.first_difference.empty()) list.back()["first_difference"] = a.first_difference;
      if (!failed.empty()) list.back()["failed"] = failed;
      record.write();
      fmt::print(stderr, "{}, {}: {}\n", name, kernel, a.equal == 1 ? "equal" : "DIFFERENT");
    }
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

// A network's output hash on the device, node by node and as one graph, beside the CPU's.
json run_network(std::string_view name, std::int64_t batch, int runs, bool& equal) {
  const Model model = build_model(name);
  const InputMap inputs = random_inputs(model, batch, 7);
  RunOptions options{.contract = Contract::seq()};
  options.threads = hardware_threads();
  const auto hash = [](const Trace& trace) {
    HashStream all;
    for (const auto& [output, tensor] : trace.outputs) all.update(tensor);
    return to_string(all.digest());
  };
  const std::string want = hash(Executor(model.graph, all_kernels(), options).run(inputs));
  cuda::DeviceExecutor executor(model.graph, all_kernels(), options);
  const std::string nodes = hash(executor.run(inputs));
  std::vector<double> seconds;
  std::string graph;
  for (int i = 0; i < runs; ++i) {
    const Trace trace = executor.run(inputs);
    graph = hash(trace);
    if (i * 4 >= runs) seconds.push_back(trace.seconds);
  }
  const bool same = nodes == want && graph == want && executor.launched_graph();
  equal = equal && same;
  json result{{"network", name},
              {"batch", batch},
              {"hash", want},
              {"node_by_node", nodes},
              {"graph", graph},
              {"equal", same},
              {"median_s", median(seconds)}};
  // What each node costs on the device's clock.
  const Trace trace = executor.run(inputs, true);
  std::map<std::string, double> by_kernel;
  for (const NodeRecord& n : trace.nodes) by_kernel[std::string(n.kernel)] += n.seconds;
  for (const auto& [kernel, s] : by_kernel) result["seconds_by_kernel"][kernel] = s;
  return result;
}

void run_networks(Record& record, bool& equal) {
  json& list = record.all["networks"];
  const struct {
    const char* name;
    std::int64_t batch;
  } wanted[] = {{"lenet", 64}, {"resnet50", 1}, {"resnet50", 8}};
  for (const auto& w : wanted) {
    const std::string key = fmt::format("{} {}", w.name, w.batch);
    if (Record::has(list, "key", key) || !record.time_left()) continue;
    json result;
    const std::string failed =
        failure_of([&] { result = run_network(w.name, w.batch, 24, equal); });
    if (!failed.empty()) {
      equal = false;
      result = {{"failed", failed}};
    }
    result["key"] = key;
    fmt::print(stderr, "{}: {}\n", key, failed.empty() ? result["equal"].dump() : failed);
    list.push_back(std::move(result));
    record.write();
  }
}

// mma beside the software model. The model of f8 is wgmma's: mma may do f8 in another way, so its
// difference is reported and decides nothing.
void run_tensor_cores(Record& record, std::uint64_t tiles, bool& equal) {
  json& rows = record.all["tensor_cores"];
  rows = json::array();
  const struct {
    const char* name;
    TensorCoreFormat format;
    DType acc;
    bool decides;
  } formats[] = {{"f16", TensorCoreFormat::f16, DType::f32, true},
                 {"f16", TensorCoreFormat::f16, DType::f16, true},
                 {"bf16", TensorCoreFormat::bf16, DType::f32, true},
                 {"tf32", TensorCoreFormat::tf32, DType::f32, true},
                 {"f8e4m3", TensorCoreFormat::f8e4m3, DType::f32, false},
                 {"f8e5m2", TensorCoreFormat::f8e5m2, DType::f32, false}};
  for (const auto& f : formats) {
    std::string unit;
    cuda::TensorCoreCount count;
    cuda::check(cuda::check_tensor_cores(f.format, f.acc, tiles, 2026, unit, count),
                "the tensor cores' kernel");
    if (unit.empty()) continue;
    if (f.decides) equal = equal && count.differ == 0;
    rows.push_back({{"format", f.name},
                    {"unit", unit},
                    {"decides", f.decides},
                    {"cases", count.cases},
                    {"differ", count.differ}});
    if (count.differ > 0)
      rows.back()["first"] = fmt::format("tile {} row {} column {}: {:08x}, the model {:08x}",
                                         count.tile, count.row, count.col, count.got, count.want);
    record.write();
    fmt::print(stderr, "tensor cores, {}, {}: {} of {} differ\n", f.name, unit, count.differ,
               count.cases);
  }
}

// Error of the vendors' rows on cases of a middling size.
void run_vendors(Record& record) {
  constexpr const char* kCases[] = {
      "vendor | gemm | | f32[256,1024] f32[1024,256]",
      "vendor | matmul | | f32[256,1024] f32[1024,256]",
      "vendor | conv | pads_begin=[1,1] pads_end=[1,1] | f32[4,64,28,28] f32[64,64,3,3]",
      "vendor | conv | pads_begin=[2,2] pads_end=[2,2] | f32[4,32,28,28] f32[64,32,5,5]",
      "vendor | max_pool | kernel=[2,2] strides=[2,2] | f32[8,64,28,28]",
      "vendor | avg_pool | kernel=[3,3] strides=[2,2] | f32[8,64,28,28]",
      "vendor | softmax | axis=-1 | f32[512,1000]:wide",
      "vendor | log_softmax | axis=-1 | f32[512,1000]:wide",
      "vendor | lrn | size=5 | f32[4,64,28,28]",
      "vendor | batch_norm | | f32[8,64,28,28] f32[64] f32[64] f32[64] f32[64]:positive",
      "vendor | lstm | | f32[16,8,64] f32[1,512,64] f32[1,512,128] f32[1,1024]",
      "vendor | gru | linear_before_reset=true | f32[16,8,64] f32[1,384,64] f32[1,384,128] "
      "f32[1,768]"};
  json& list = record.all["vendors"];
  for (const char* line : kCases) {
    const OpCase c = parse_op_case(line);
    const std::string exact = c.op->name == "lstm" || c.op->name == "gru" ? "seq" : "exact";
    std::vector<Tensor> want;
    for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
      if (row->device != Device::cuda || row->promise != Promise::vendor || !record.time_left())
        continue;
      json entry{{"kernel", row->name}, {"case", c.line}};
      Call call(c, Contract::seq());
      const std::string failed = failure_of([&] {
        if (const Refusal no = row->refuse(call.problem)) throw usage_error("refused: {}", *no);
        row->run(call.call());
      });
      if (row->version != nullptr) entry["version"] = row->version();
      if (!failed.empty()) {
        entry["failed"] = failed;
      } else {
        if (want.empty()) want = std::move(call.on_cpu(exact.c_str()).outputs);
        double worst = 0, sum = 0;
        std::int64_t correct = 0;
        const auto got = call.outputs[0].data<float>(), truth = want[0].data<float>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double off = abs_of(static_cast<double>(ordered(got[i]) - ordered(truth[i])));
          worst = std::max(worst, off);
          sum += off;
          correct += off == 0;
        }
        const double n = static_cast<double>(got.size());
        entry["beside"] = exact;
        entry["max_ulp"] = worst;
        entry["mean_ulp"] = sum / n;
        entry["equal_share"] = static_cast<double>(correct) / n;
        entry["hash"] = hash_of(call.outputs);
      }
      fmt::print(stderr, "{}\n", entry.dump());
      list.push_back(std::move(entry));
      record.write();
    }
  }
}

// Every row that takes the problem, in turn, `rounds` times.
json time_shape(const OpCase& c, int rounds) {
  Call call(c, Contract::seq());
  const cuda::CallOnDevice on_device(call.call());
  struct Contender {
    const cuda::DeviceRow* row;
    std::unique_ptr<cuda::Work> work = std::make_unique<cuda::Work>();
    std::vector<double> seconds;
    std::string failed;
  };
  std::vector<Contender> contenders;
  for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
    if (row->device != Device::cuda || (row->refuse != nullptr && row->refuse(call.problem)))
      continue;
    // Of ours, the one that selection takes, and no slower definition behind it.
    if (row->promise == Promise::defined &&
        std::ranges::any_of(contenders, [](const Contender& other) {
          return other.row->row.promise == Promise::defined;
        }))
      continue;
    contenders.push_back({.row = cuda::find_device_row(*row)});
  }
  cuda::DeviceTimer timer;
  constexpr int kWarm = 3;
  for (int i = 0; i < rounds + kWarm; ++i)
    for (Contender& k : contenders) {
      if (!k.failed.empty()) continue;
      k.failed = failure_of([&] {
        k.work->begin();
        timer.start();
        k.row->enqueue(on_device.call(), *k.work);
        const double s = timer.stop_s();
        if (i >= kWarm) k.seconds.push_back(s);
      });
    }
  json result{{"op", c.op->name}, {"shape", c.name}, {"case", c.line}, {"rounds", rounds}};
  double ours = 0, best = 0;
  for (const Contender& k : contenders) {
    json& entry = result["kernels"][std::string(k.row->row.name)];
    if (!k.failed.empty()) {
      entry["failed"] = k.failed;
      continue;
    }
    const double m = median(k.seconds);
    entry["median_s"] = m;
    entry["spread"] = *std::ranges::max_element(k.seconds) / *std::ranges::min_element(k.seconds);
    if (k.row->row.promise == Promise::defined) {
      ours = m;
    } else if (k.row->row.name.find("tf32") == std::string_view::npos &&
               k.row->row.name.find("bf16x9") == std::string_view::npos) {
      if (best == 0 || m < best) {
        best = m;
        result["best_f32"] = k.row->row.name;
      }
    }
  }
  if (ours > 0 && best > 0) result["ratio"] = ours / best;
  return result;
}

void run_times(Record& record) {
  json& list = record.all["times"];
  std::vector<OpCase> cases;
  for (const char* op : {"gemm", "conv"})
    for (OpCase& c : shapes_of(op)) cases.push_back(std::move(c));
  for (const std::int64_t n : {4096, 8192})
    cases.insert(cases.begin(),
                 parse_op_case(fmt::format("cube.{0} | gemm | | f32[{0},{0}] f32[{0},{0}]", n)));
  for (const char* op : {"exp", "tanh", "sigmoid", "relu", "max_pool", "avg_pool", "batch_norm",
                         "lrn", "softmax", "layer_norm", "lstm", "gru"})
    for (OpCase& c : shapes_of(op)) cases.push_back(std::move(c));
  for (const char* op : {"exp", "tanh", "relu"})
    cases.push_back(parse_op_case(fmt::format("stream.64M | {} | | f32[67108864]:wide", op)));
  for (const OpCase& c : cases) {
    const std::string key = std::string(c.op->name) + " " + c.name;
    if (Record::has(list, "key", key) || !record.time_left()) continue;
    json result;
    const std::string failed = failure_of([&] { result = time_shape(c, 20); });
    if (!failed.empty()) result = {{"failed", failed}};
    result["key"] = key;
    list.push_back(std::move(result));
    record.write();
    fmt::print(stderr, "{}: {}\n", key, list.back().value("ratio", 0.0));
  }
}

// Few and small, with tails on every side: each tool sees each kind of kernel once.
bool run_sanitized() {
  Agreement a;
  for (const char* line :
       {"tile | gemm | alpha=0.5 beta=-2 trans_b=true | f32[131,37]:wild f32[150,37] f32[150]",
        "tile | matmul | | f32[2,140,19]:wild f32[19,3]",
        "tile | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:special f32[130,3,3,3] "
        "f32[130]",
        "tile | conv | strides=[2,1] dilations=[1,2] groups=2 | f32[1,4,13,29]:wild f32[6,2,3,3]"})
    for (const char* contract : {"seq", "exact"})
      for (const KernelRow* row : all_kernels().all()) {
        const OpCase c = parse_op_case(line);
        if (row->device == Device::cuda && row->promise == Promise::defined &&
            row->op == c.op->name)
          a.compare(c, *row, contract);
      }
  std::string last;
  for (const OpCase& c : op_cases()) {
    if (c.op->name == last) continue;
    last = c.op->name;
    for (const KernelRow* row : all_kernels().all())
      if (row->device == Device::cuda && row->promise == Promise::defined && row->op == last)
        a.compare(c, *row, "seq");
  }
  bool equal = true;
  run_network("lenet", 1, 3, equal);
  fmt::print(stderr, "{} of {} equal\n", a.equal, a.compared);
  return equal && a.equal == a.compared;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4)
      throw usage_error(
          "gpu_evidence OUT.json COMMIT STAGE [SECONDS], STAGE one of rows, sizes, networks, "
          "tensor_cores, vendors, times, sanitize");
    const std::string_view stage = argv[3];
    if (const Refusal none = cuda::refuse_without_device()) throw missing("{}", *none);
    if (stage == "sanitize") return run_sanitized() ? 0 : 1;
    Record record(argv[1], argc > 4 ? std::stod(argv[4]) : 1e9);
    cuda::DeviceFacts facts;
    cuda::check(cuda::api().describe(&facts), "cudaGetDeviceProperties");
    record.all["device"] = cuda::device_name();
    record.all["memory_bytes"] = facts.memory_bytes;
    record.all["commit"] = argv[2];
    record.all["cublas"] = cuda::cublas().version;
    record.all["cudnn"] = cuda::cudnn().version;
    bool equal = true;
    if (stage == "rows")
      run_rows(record, equal);
    else if (stage == "sizes")
      run_sizes(record, equal);
    else if (stage == "networks")
      run_networks(record, equal);
    else if (stage == "tensor_cores")
      run_tensor_cores(record, 781250, equal);
    else if (stage == "vendors")
      run_vendors(record);
    else if (stage == "times")
      run_times(record);
    else
      throw usage_error("no stage '{}'", stage);
    record.all["all_equal"] = record.all.value("all_equal", true) && equal;
    record.write();
    return equal ? 0 : 1;
  } catch (const Error& e) {
    fmt::print(stderr, "gpu_evidence: {}\n", e.what());
    if (device_is_lost(e)) return 5;
    return e.kind() == ErrorKind::missing ? 4 : e.kind() == ErrorKind::usage ? 2 : 70;
  } catch (const std::exception& e) {
    fmt::print(stderr, "gpu_evidence: {}\n", e.what());
    return 70;
  }
}
