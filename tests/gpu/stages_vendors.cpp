// The vendors' rows beside the exact result.
#include <fmt/format.h>

#include <algorithm>

#include "engine/numerics/fp.h"
#include "kernels/backends/cuda/rows.h"
#include "kernels/kernels.h"
#include "tests/gpu/agreement.h"
#include "tests/gpu/stages.h"

namespace etalon {

namespace {

// Does one of a library's engines take the case? All are asked in one entry, for most do not: which
// do, and why the others not.
bool takes(Record& record, json& list, const OpCase& c, std::string_view kernel) {
  const std::string key = fmt::format("engines: {}", c.line);
  if (!Record::has(list, "key", key))
    record.entry(list, {{"key", key}}, [&](json& result) {
      Call call(c, Contract::seq());
      for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
        if (row->device != Device::cuda || cuda::find_device_row(*row)->note == nullptr) continue;
        const Refusal no = row->refuse(call.problem);
        if (no)
          result["refused"][std::string(row->name)] = *no;
        else
          result["takes"].push_back(row->name);
      }
    });
  for (const json& entry : list)
    if (entry["key"] == key)
      for (const json& name : entry.value("takes", json::array()))
        if (name == kernel) return true;
  return false;
}

}  // namespace

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
      ("vendor | lstm | gates=ifco direction=bidirectional cell_clip=0.25 | f32[16,8,64] "
       "f32[2,512,64] f32[2,512,128] f32[2,1024] i32[8]=16,9,1,16,12,3,7,16"),
      ("vendor | lstm | direction=bidirectional batch_first=true | f32[8,16,64] f32[2,512,64] "
       "f32[2,512,128] - - f32[8,2,128] f32[8,2,128]"),
      ("vendor | gru | linear_before_reset=true | f32[16,8,64] f32[1,384,64] f32[1,384,128] "
       "f32[1,768]"),
      ("vendor | gru | linear_before_reset=true gates=rzh direction=bidirectional | f32[16,8,64] "
       "f32[2,384,64] f32[2,384,128] f32[2,768] - f32[2,8,128]"),
      "vendor | rnn | | f32[16,8,64] f32[1,128,64] f32[1,128,128] f32[1,256]",
      ("vendor | rnn | activations=[relu,relu] direction=bidirectional | f32[16,8,64] "
       "f32[2,128,64] f32[2,128,128] f32[2,256]")};
  json& list = record.all["vendors"];
  for (const char* line : kCases) {
    const OpCase c = parse_op_case(line);
    const bool cell = c.op->name == "lstm" || c.op->name == "gru" || c.op->name == "rnn";
    const char* const beside = cell ? "seq" : "exact";
    std::vector<Tensor> want;
    for (const KernelRow* row : all_kernels().rows_of(c.op->name)) {
      if (row->device != Device::cuda || row->promise != Promise::vendor) continue;
      const std::string key = fmt::format("{}: {}", row->name, c.line);
      if (Record::has(list, "key", key) || !record.time_left()) continue;
      const cuda::DeviceRow* const device_row = cuda::find_device_row(*row);
      if (device_row->note != nullptr && !takes(record, list, c, row->name)) continue;
      record.entry(list, {{"key", key}, {"kernel", row->name}}, [&](json& result) {
        Call call(c, Contract::seq());
        if (row->version != nullptr) result["version"] = row->version();
        if (const Refusal no = row->refuse(call.problem)) throw usage_error("refused: {}", *no);
        if (device_row->note != nullptr) result["note"] = device_row->note(call.problem);
        row->run(call.call());
        if (want.empty()) want = std::move(call.on_cpu(beside).outputs);
        double worst = 0, sum = 0;
        std::int64_t correct = 0;
        const auto got = call.outputs[0].data<float>(), truth = want[0].data<float>();
        for (std::size_t i = 0; i < got.size(); ++i) {
          const double off = abs_of(static_cast<double>(ordered(got[i]) - ordered(truth[i])));
          worst = std::max(worst, off);
          sum += off;
          correct += off == 0;
        }
        const auto n = static_cast<double>(got.size());
        result["beside"] = beside;
        result["max_ulp"] = worst;
        result["mean_ulp"] = sum / n;
        result["equal_share"] = static_cast<double>(correct) / n;
        result["hash"] = hash_of(call.outputs);
      });
    }
  }
}

}  // namespace etalon
