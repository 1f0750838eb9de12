// gpu_evidence: what a machine with a GPU shows, as one JSON object on standard output.
//   device, driver and commit; for every CUDA row and every case of tests/op_cases its hash beside
//   that of the CPU's definition; whole networks likewise, with the time of one launch of their
//   graph; 10^8 hostile cases of each tensor core format beside the software model; times of the
//   tiled products beside cuBLAS's f32, in one run, interleaved, on the device's clock, copies left
//   out.
// gpu_evidence COMMIT writes the record; gpu_evidence --sanitize runs the few cases that
// compute-sanitizer is to see, without timing.
// Exit code 0: all hashes equal; 1: one is not; 4: no device. Built with ETALON_CUDA;
// bench/gpu_evidence.sh builds and runs it.
// The cases' reader stands in a file of tests; nothing of doctest runs here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"
#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/graph/executor.h"
#include "engine/models/inputs.h"
#include "engine/models/models.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/backends/cuda/libraries.h"
#include "kernels/backends/cuda/tensor_core_check.h"
#include "kernels/kernels.h"
#include "tests/op_cases.h"

using namespace etalon;

namespace {

constexpr const char* kContracts[] = {"seq",      "exact",      "fma=off",
                                      "round=rd", "store=bf16", "subnormals=flush"};

struct Row {
  int compared = 0, equal = 0;
  std::string first_difference, hash;
};

// Runs one case on the row; nothing where the row refuses it.
void compare(const OpCase& c, const KernelRow& row, const char* contract, Row& result) {
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  RunOptions options{.contract = Contract::parse(contract)};
  options.device = Device::cuda;
  options.kernels = std::string(row.name);
  OpRun got;
  try {
    got = run_op(*c.op, c.params, p, all_kernels(), options);
  } catch (const Error& e) {
    if (e.kind() == ErrorKind::usage) return;  // refused
    throw;
  }
  options.device = Device::cpu;
  options.kernels = "";
  const OpRun want = run_op(*c.op, c.params, p, all_kernels(), options);
  ++result.compared;
  const std::string hash = to_string(hash_tensor(got.outputs[0]));
  if (hash == to_string(hash_tensor(want.outputs[0])))
    ++result.equal;
  else if (result.first_difference.empty())
    result.first_difference = fmt::format("{} under {}", c.line, contract);
  result.hash = hash;
}

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

// Seconds of the tiled kernel and of cuBLAS for square products.
nlohmann::json time_gemm(std::int64_t n) {
  const OpRow& op = get_op("gemm");
  const Params params = op.defaults();
  const Contract contract = Contract::seq();
  const OpCase c = parse_op_case(fmt::format("evidence | gemm | | f32[{0},{0}] f32[{0},{0}]", n));
  const std::vector<Tensor> in = case_inputs(c);
  const auto p = pointers(in);
  std::vector<InferInput> types;
  for (const Tensor* t : p) types.push_back({t->type(), nullptr, true});
  const std::vector<TensorType> outputs{{DType::f32, {n, n}}};
  const Problem problem{.op = &op,
                        .params = &params,
                        .inputs = types,
                        .outputs = outputs,
                        .contract = &contract,
                        .device = Device::cuda};
  std::vector<Tensor> y;
  y.push_back(Tensor::zeros(DType::f32, {n, n}));
  const KernelCall call{.problem = &problem, .inputs = p, .outputs = y};
  const cuda::CallOnDevice on_device(call);
  cuda::DeviceTimer timer;
  std::vector<double> ours, theirs;
  void* handle = nullptr;
  const auto& cublas = cuda::cublas();
  using Sgemm = int(void*, int, int, int, int, int, const float*, const float*, int, const float*,
                    int, const float*, float*, int);
  if (cublas.handle != nullptr) {
    if (cublas.function<int(void**)>("cublasCreate_v2")(&handle) != 0 ||
        cublas.function<int(void*, void*)>("cublasSetStream_v2")(handle, cuda::stream()) != 0 ||
        cublas.function<int(void*, int)>("cublasSetMathMode")(handle, 2) != 0)
      throw missing("cuBLAS {} could not be set up", cublas.version);
  }
  const cuda::DeviceBuffer other(static_cast<std::size_t>(n * n) * sizeof(float));
  const int e = static_cast<int>(n);
  const float one = 1, zero = 0;
  const auto* a = reinterpret_cast<const float*>(on_device.call().input(0).bytes().data());
  const auto* b = reinterpret_cast<const float*>(on_device.call().input(1).bytes().data());
  for (int i = 0; i < 33; ++i) {
    timer.start();
    cuda::check(cuda::api().tiles(on_device.call(), cuda::stream()), "the kernel's launch");
    ours.push_back(timer.stop_s());
    if (handle == nullptr) continue;
    timer.start();
    if (cublas.function<Sgemm>("cublasSgemm_v2")(handle, 0, 0, e, e, e, &one, b, e, a, e, &zero,
                                                 static_cast<float*>(other.get()), e) != 0)
      throw missing("cuBLAS {}: cublasSgemm failed", cublas.version);
    theirs.push_back(timer.stop_s());
  }
  // The first three warm the device up.
  ours.erase(ours.begin(), ours.begin() + 3);
  nlohmann::json record{{"op", "gemm"},
                        {"m", n},
                        {"n", n},
                        {"k", n},
                        {"contract", "seq"},
                        {"median_s", median(ours)}};
  record["gflops"] = 2e-9 * static_cast<double>(n) * static_cast<double>(n) *
                     static_cast<double>(n) / median(ours);
  if (!theirs.empty()) {
    theirs.erase(theirs.begin(), theirs.begin() + 3);
    record["vs"]["cublas.f32"] = {{"version", cublas.version},
                                  {"median_s", median(theirs)},
                                  {"ratio", median(ours) / median(theirs)}};
  }
  record["spread"] = *std::ranges::max_element(ours) / *std::ranges::min_element(ours);
  return record;
}

// A network's output hash on the device, node by node and as one graph, beside the CPU's.
nlohmann::json run_network(std::string_view name, std::int64_t batch, bool& equal) {
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
  for (int i = 0; i < 23; ++i) {
    const Trace trace = executor.run(inputs);
    graph = hash(trace);
    if (i >= 3) seconds.push_back(trace.seconds);
  }
  const bool same = nodes == want && graph == want && executor.launched_graph();
  equal = equal && same;
  return {{"network", name},
          {"batch", batch},
          {"hash", want},
          {"node_by_node", nodes},
          {"graph", graph},
          {"equal", same},
          {"median_s", median(seconds)}};
}

// mma beside the software model. The model of f8 is wgmma's: mma may do f8 in another way, so its
// difference is reported and decides nothing.
nlohmann::json run_tensor_cores(std::uint64_t tiles, bool& equal) {
  nlohmann::json rows = nlohmann::json::array();
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
    fmt::print(stderr, "tensor cores, {}, {}: {} of {} differ\n", f.name, unit, count.differ,
               count.cases);
  }
  return rows;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (const Refusal none = cuda::refuse_without_device()) throw missing("{}", *none);
    nlohmann::json record{{"device", cuda::device_name()},
                          {"commit", argc > 1 ? argv[1] : ""},
                          {"cublas", cuda::cublas().version},
                          {"cudnn", cuda::cudnn().version}};
    bool all_equal = true;
    const bool brief = argc > 1 && std::string_view(argv[1]) == "--sanitize";
    for (const KernelRow* row : all_kernels().all()) {
      if (row->device != Device::cuda) continue;
      if (brief && !row->name.ends_with(".128x128")) continue;
      Row result;
      if (row->promise == Promise::defined)
        for (const char* contract : kContracts)
          for (const OpCase& c : op_cases())
            if (c.op->name == row->op) compare(c, *row, contract, result);
      all_equal = all_equal && result.compared == result.equal;
      record["kernels"].push_back(
          {{"kernel", row->name},
           {"promise", row->promise == Promise::vendor ? "vendor" : "defined"},
           {"compared", result.compared},
           {"equal", result.equal},
           {"last_hash", result.hash},
           {"first_difference", result.first_difference}});
      fmt::print(stderr, "{}: {} of {}\n", row->name, result.equal, result.compared);
    }
    record["tensor_cores"] = run_tensor_cores(brief ? 256 : 781250, all_equal);
    record["networks"].push_back(run_network("lenet", brief ? 1 : 64, all_equal));
    if (!brief)
      for (const std::int64_t batch : {1, 8})
        record["networks"].push_back(run_network("resnet50", batch, all_equal));
    for (const std::int64_t n : {512, 1024, 2048, 4096})
      if (!brief) record["times"].push_back(time_gemm(n));
    record["all_equal"] = all_equal;
    fmt::print("{}\n", record.dump(1));
    return all_equal ? 0 : 1;
  } catch (const Error& e) {
    fmt::print(stderr, "gpu_evidence: {}\n", e.what());
    return e.kind() == ErrorKind::missing ? 4 : 70;
  }
}
