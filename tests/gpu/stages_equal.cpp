// Stages of gpu_evidence that compare the device's bits with the CPU's, or with a software model.
#include <fmt/format.h>

#include <map>

#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/models/inputs.h"
#include "engine/models/models.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/backends/cuda/tensor_core_check.h"
#include "kernels/kernels.h"
#include "tests/gpu/agreement.h"
#include "tests/gpu/stages.h"

namespace etalon {

using nlohmann::json;

namespace {

constexpr const char* kContracts[] = {"seq",      "exact",      "fma=off",
                                      "round=rd", "store=bf16", "subnormals=flush"};

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

}  // namespace

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

}  // namespace etalon
