// Stages of gpu_evidence that hold cuBLAS and cuDNN beside the exact result and beside our times.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>

#include "engine/numerics/fp.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/gpu/agreement.h"
#include "tests/gpu/stages.h"

namespace etalon {

using nlohmann::json;

namespace {

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

}  // namespace

double median(std::vector<double> v) {
  std::ranges::sort(v);
  return v[v.size() / 2];
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

}  // namespace etalon
