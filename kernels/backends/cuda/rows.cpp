#include "kernels/backends/cuda/rows.h"
#ifdef ETALON_CUDA

#include <deque>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/device_definition.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/kernels.h"

namespace etalon::cuda {
namespace {

// Slices that balls in f64 did not decide: the op's definition on the CPU, over the ladder.
void settle(const KernelCall& call, const std::vector<std::int64_t>& undecided) {
  if (undecided.empty()) return;
  for (const KernelRow* row : all_kernels().rows_of(call.problem->op->name))
    if (row->run_slices != nullptr && row->device == Device::cpu &&
        (row->refuse == nullptr || !row->refuse(*call.problem))) {
      row->run_slices(call, undecided);
      return;
    }
  throw internal_error("no definition of {} on the CPU", call.problem->op->name);
}

void run_definition_on_device(const KernelCall& call) {
  if (!call.truth.empty()) throw usage_error("a truth is computed on the CPU: use --device cpu");
  CallOnDevice on_device(call);
  const std::vector<std::int64_t> undecided = launch_definition(call.problem->op->name, on_device);
  on_device.fetch_output();
  settle(call, undecided);
}

void run_tiles(const KernelCall& call) {
  CallOnDevice on_device(call);
  launch_tiles(on_device);
  on_device.fetch_output();
}

Refusal refuse_tiles_here(const Problem& problem) {
  if (Refusal r = refuse_tiles(problem)) return r;
  return refuse_without_device();
}

template <class D>
Refusal refuse_definition_here(const Problem& problem) {
  if (Refusal r = refuse_device_definition<D>(problem)) return r;
  return refuse_without_device();
}

}  // namespace

std::span<const KernelRow> rows() {
  static const std::vector<KernelRow> all = [] {
    static std::deque<std::string> names;
    std::vector<KernelRow> list;
    for (const char* op : {"gemm", "matmul", "conv"})
      list.push_back({.op = op,
                      .name = names.emplace_back(std::string(op) + ".f32.cuda.128x128"),
                      .device = Device::cuda,
                      .contracts = "seq, fused or with fma=off",
                      .refuse = refuse_tiles_here,
                      .run = run_tiles});
    for_each_device_definition([&]<class D>() {
      for (const std::string_view op : device_ops<D>())
        list.push_back({.op = op,
                        .name = names.emplace_back(std::string(op) + ".cuda.definition"),
                        .device = Device::cuda,
                        .contracts = D::rounded_once ? "all" : "seq, exact",
                        .refuse = refuse_definition_here<D>,
                        .run = run_definition_on_device});
    });
    return list;
  }();
  return all;
}

}  // namespace etalon::cuda

#endif
