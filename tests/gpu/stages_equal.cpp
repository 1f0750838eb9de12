// Hashes beside the CPU's: rows, sizes, networks, tensor cores, and the cases that
// compute-sanitizer sees.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "engine/core/hash.h"
#include "engine/core/threads.h"
#include "engine/models/inputs.h"
#include "engine/models/models.h"
#include "kernels/activation/device_lanes.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/executor.h"
#include "kernels/backends/cuda/tensor_core_check.h"
#include "kernels/kernels.h"
#include "tests/gpu/agreement.h"
#include "tests/gpu/stages.h"

namespace etalon {
namespace {

bool is_ours(const KernelRow& row) {
  return row.device == Device::cuda && row.promise == Promise::defined;
}

// A network's output hash on the device, node by node and as one graph, beside the CPU's.
void run_network(std::string_view name, std::int64_t batch, int runs, json& result) {
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
  // A slice that the device leaves undecided sends a run back to single nodes: said, and no
  // difference.
  const bool same = nodes == want && graph == want;
  result["hash"] = want;
  result["node_by_node"] = nodes;
  result["graph"] = graph;
  result["launched_graph"] = executor.launched_graph();
  result["equal"] = same;
  result["median_s"] = median(seconds);
  // What each node costs on the device's clock.
  const Trace trace = executor.run(inputs, true);
  std::map<std::string, double> by_kernel;
  for (const NodeRecord& n : trace.nodes) by_kernel[std::string(n.kernel)] += n.seconds;
  for (const auto& [kernel, s] : by_kernel) result["seconds_by_kernel"][kernel] = s;
}

}  // namespace

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
}

void run_rows(Record& record) {
  constexpr const char* kContracts[] = {"seq",
                                        "exact",
                                        "fma=off",
                                        "round=rd",
                                        "store=bf16",
                                        "subnormals=flush",
                                        "algo=im2col",
                                        "algo=winograd:2/3",
                                        "algo=winograd:4/3",
                                        "algo=winograd:4/3,transform=f64",
                                        "algo=winograd:6/3",
                                        "algo=winograd:4/5",
                                        "algo=fft:8",
                                        "algo=fft:full"};
  json& list = record.all["rows"];
  for (const KernelRow* row : all_kernels().all()) {
    if (!is_ours(*row) || Record::has(list, "kernel", row->name) || !record.time_left()) continue;
    record.entry(list, {{"kernel", row->name}}, [&](json& result) {
      Agreement a;
      // The cases are small: a row that refuses such is to take them here.
      cuda::Api small = cuda::api();
      small.residue_facts = [](cuda::ResidueFacts* facts) {
        const int code = cuda::runtime_api()->residue_facts(facts);
        facts->least = 1;
        return code;
      };
      small.most_winograd_share = kInfinity;
      std::optional<cuda::UseApi> use;
      if (row->name.ends_with(".residues") || row->name.ends_with(".exact.cuda.winograd"))
        use.emplace(small);
      for (const char* contract : kContracts)
        for (const OpCase& c : op_cases())
          if (c.op->name == row->op) a.compare(c, *row, contract);
      result["compared"] = a.compared;
      result["equal_cases"] = a.equal;
      result["equal"] = a.equal == a.compared;
      result["last_hash"] = a.hash;
      if (!a.first_difference.empty()) result["first_difference"] = a.first_difference;
    });
  }
}

// What the cases of one op are too few for: the device's own approximations are steps that the
// text's form on a CPU has not.
void run_functions(Record& record) {
  constexpr std::uint32_t kCount = 1U << 22, kStep = 2654435761U;  // odd: no float comes twice
  json& list = record.all["functions"];
  for (const KernelRow* row : all_kernels().all()) {
    if (!is_ours(*row) || device_function_code(row->op) < 0 || !row->name.ends_with(".f32.cuda"))
      continue;
    for (const std::string_view form : {"", "approximate=tanh"}) {
      if (!form.empty() && row->op != "gelu") continue;
      const std::string name =
          form.empty() ? std::string(row->name) : fmt::format("{}, {}", row->name, form);
      if (Record::has(list, "kernel", name) || !record.time_left()) continue;
      record.entry(list, {{"kernel", name}}, [&](json& result) {
        Call call(parse_op_case(fmt::format("floats | {} | {} | f32[{}]", row->op, form, kCount)),
                  Contract::seq());
        auto* const x = reinterpret_cast<float*>(call.inputs[0].mutable_bytes().data());
        for (std::uint32_t i = 0; i < kCount; ++i) x[i] = float_of(i * kStep);
        row->run(call.call());
        const OpRun want = call.on_cpu("seq");
        const auto* const wanted = reinterpret_cast<const float*>(want.outputs[0].bytes().data());
        const auto* const got = reinterpret_cast<const float*>(call.outputs[0].bytes().data());
        std::int64_t differ = 0;
        for (std::uint32_t i = 0; i < kCount; ++i) {
          if (bits_of(got[i]) == bits_of(wanted[i])) continue;
          if (differ++ == 0)
            result["first_difference"] =
                fmt::format("of {:08x}: {:08x}, the CPU {:08x}", bits_of(x[i]), bits_of(got[i]),
                            bits_of(wanted[i]));
        }
        result["floats"] = kCount;
        result["differ"] = differ;
        result["equal"] = differ == 0;
      });
    }
  }
}

void run_sizes(Record& record) {
  json& list = record.all["sizes"];
  for (const char* contract : {"seq", "exact", "algo=winograd:4/3"})
    for (const char* op : {"gemm", "conv", "softmax", "layer_norm", "max_pool", "lstm"}) {
      // Of exact, what tensor units compute.
      const bool conv = op == std::string_view("conv");
      if (contract == std::string_view("exact") ? !conv && op != std::string_view("gemm")
                                                : contract != std::string_view("seq") && !conv)
        continue;
      for (const OpCase& c : shapes_of(op)) {
        if (std::string_view(contract).starts_with("algo")) {
          const Shape& w = c.inputs[1].type.shape;
          if (w.rank() != 4 || w[2] != 3 || w[3] != 3 || c.line.find("strides") != c.line.npos)
            continue;
        }
        const std::string key = fmt::format("{} {} {}", op, c.name, contract);
        if (Record::has(list, "key", key) || !record.time_left()) continue;
        record.entry(list, {{"key", key}}, [&](json& result) {
          // The fastest row that takes it, as a network would have it.
          const double began = clock_s();
          Agreement a;
          for (const KernelRow* row : all_kernels().rows_of(op))
            if (is_ours(*row) && a.compare(c, *row, contract)) {
              result["kernel"] = row->name;
              break;
            }
          result["equal"] = a.equal == a.compared;
          result["hash"] = a.hash;
          result["seconds"] = clock_s() - began;
          if (!a.first_difference.empty()) result["first_difference"] = a.first_difference;
        });
      }
    }
}

void run_networks(Record& record) {
  json& list = record.all["networks"];
  const struct {
    const char* name;
    std::int64_t batch;
  } wanted[] = {{"lenet", 64},   {"alexnet", 16}, {"vgg_a", 1}, {"mobilenet", 1},
                {"resnet50", 1}, {"resnet50", 8}, {"lstm", 16}};
  for (const auto& w : wanted) {
    const std::string key = fmt::format("{} {}", w.name, w.batch);
    if (Record::has(list, "key", key) || !record.time_left()) continue;
    record.entry(list, {{"key", key}},
                 [&](json& result) { run_network(w.name, w.batch, 24, result); });
  }
}

// mma and wgmma beside the software model. The model of f8 is wgmma's. For sm_90 nvcc makes mma of
// f8 out of mma of f16 (HMMA.16816 in its machine code): its difference is reported and decides
// nothing.
void run_tensor_cores(Record& record, std::uint64_t cases) {
  using Instruction = cuda::TensorCoreInstruction;
  json& list = record.all["tensor_cores"];
  const struct {
    const char* name;
    TensorCoreFormat format;
    DType acc;
    bool mma_decides;
  } formats[] = {{"f16", TensorCoreFormat::f16, DType::f32, true},
                 {"f16", TensorCoreFormat::f16, DType::f16, true},
                 {"bf16", TensorCoreFormat::bf16, DType::f32, true},
                 {"tf32", TensorCoreFormat::tf32, DType::f32, true},
                 {"f8e4m3", TensorCoreFormat::f8e4m3, DType::f32, false},
                 {"f8e5m2", TensorCoreFormat::f8e5m2, DType::f32, false}};
  for (const Instruction instruction : {Instruction::mma, Instruction::wgmma}) {
    const bool wgmma = instruction == Instruction::wgmma;
    const std::uint64_t outputs = (wgmma ? 64 : 16) * 8;
    for (const auto& f : formats) {
      const std::string key =
          fmt::format("{}{} acc={}", wgmma ? "wgmma " : "", f.name, name(f.acc));
      if (Record::has(list, "key", key) || !record.time_left()) continue;
      record.entry(list, {{"key", key}, {"decides", wgmma || f.mma_decides}}, [&](json& result) {
        std::string unit;
        cuda::TensorCoreCount count;
        cuda::check(cuda::check_tensor_cores(instruction, f.format, f.acc,
                                             (cases + outputs - 1) / outputs, 2026, unit, count),
                    "the tensor cores' kernel");
        if (unit.empty()) {
          result["equal"] = true;
          result["unit"] = "none of this device, or no code for it in this program";
          return;
        }
        result["unit"] = unit;
        result["cases"] = count.cases;
        result["differ"] = count.differ;
        result["differ_by_kind"] = count.by_kind;  // of hostile data: tensor_core_check.h
        result["equal"] = count.differ == 0;
        if (count.differ > 0)
          result["first"] = fmt::format("tile {} row {} column {}: {:08x}, the model {:08x}",
                                        count.tile, count.row, count.col, count.got, count.want);
      });
    }
  }
}

// Few and small, with tails on every side: each tool sees each kind of kernel once.
bool run_sanitized() {
  cuda::Api small = cuda::api();
  small.most_winograd_share = kInfinity;
  const cuda::UseApi use(small);
  Agreement a;
  for (const char* line :
       {"tile | gemm | alpha=0.5 beta=-2 trans_b=true | f32[131,37]:wild f32[150,37] f32[150]",
        "tile | matmul | | f32[2,140,19]:wild f32[19,3]",
        "tile | conv | pads_begin=[1,1] pads_end=[1,1] | f32[2,3,9,11]:special f32[130,3,3,3] "
        "f32[130]",
        "tile | conv | strides=[2,1] dilations=[1,2] groups=2 | f32[1,4,13,29]:wild f32[6,2,3,3]"})
    for (const char* contract : {"seq", "exact", "algo=winograd:4/3"})
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
  json network;
  run_network("lenet", 1, 3, network);
  fmt::print(stderr, "{} of {} equal\n", a.equal, a.compared);
  return network.value("equal", false) && a.equal == a.compared;
}

}  // namespace etalon
