#include "kernels/backends/cuda/rows.h"

#include <algorithm>
#include <deque>

#include "kernels/backends/cuda/device_definition.h"
#include "kernels/backends/cuda/movement.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/conv/cudnn.h"
#include "kernels/gemm/cublas.h"
#include "kernels/kernels.h"

namespace etalon::cuda {
namespace {

void enqueue_definition(const KernelCall& call, Work& work) {
  const std::int64_t most = call.output(0).numel();  // a slice has at least one output
  if (most == 0) return;
  check(api().definition(call, work.undecided(most), stream()), "the kernel's launch");
}

void enqueue_tiles(const KernelCall& call, Work&) {
  if (call.output(0).numel() != 0) check(api().tiles(call, stream()), "the kernel's launch");
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

Refusal refuse_movement_here(const Problem& problem) {
  if (Refusal r = refuse_movement(problem)) return r;
  return refuse_without_device();
}

// The CPU's definition of a problem.
const KernelRow& definition_on_cpu(const Problem& problem) {
  for (const KernelRow* row : all_kernels().rows_of(problem.op->name))
    if (row->run_slices != nullptr && row->device == Device::cpu &&
        (row->refuse == nullptr || !row->refuse(problem)))
      return *row;
  throw internal_error("no definition of {} on the CPU", problem.op->name);
}

}  // namespace

void settle_on_host(const KernelCall& call, std::span<const std::int64_t> undecided) {
  if (!undecided.empty()) definition_on_cpu(*call.problem).run_slices(call, undecided);
}

void run_with_copies(const KernelCall& host, Enqueue f) {
  if (!host.truth.empty()) throw usage_error("a truth is computed on the CPU: use --device cpu");
  Work work;
  CallOnDevice on_device(host);
  f(on_device.call(), work);
  on_device.fetch_outputs();
  if (work.listed()) settle_on_host(host, work.fetch_undecided());
}

std::span<const DeviceRow> device_rows() {
  static const std::vector<DeviceRow> all = [] {
    static std::deque<std::string> names;
    std::vector<DeviceRow> list;
    for (const char* op : {"gemm", "matmul", "conv"})
      list.push_back({.row = {.op = op,
                              .name = names.emplace_back(std::string(op) + ".f32.cuda.128x128"),
                              .device = Device::cuda,
                              .contracts = "seq, fused or with fma=off",
                              .refuse = refuse_tiles_here,
                              .run = run_enqueued<enqueue_tiles>},
                      .enqueue = enqueue_tiles});
    for_each_device_definition([&]<class D>() {
      for (const std::string_view op : device_ops<D>())
        list.push_back({.row = {.op = op,
                                .name = names.emplace_back(std::string(op) + ".cuda.definition"),
                                .device = Device::cuda,
                                .contracts = D::rounded_once ? "all" : "seq, exact",
                                .refuse = refuse_definition_here<D>,
                                .run = run_enqueued<enqueue_definition>},
                        .enqueue = enqueue_definition});
    });
    for (const MovementOp& op : movement_ops())
      list.push_back({.row = {.op = op.name,
                              .name = names.emplace_back(std::string(op.name) + ".cuda.bits"),
                              .device = Device::cuda,
                              .contracts = "all",
                              .refuse = refuse_movement_here,
                              .run = run_enqueued<enqueue_movement>},
                      .enqueue = enqueue_movement,
                      .alias = op.alias});
    return list;
  }();
  return all;
}

const DeviceRow* find_device_row(const KernelRow& row) {
  for (const std::span<const DeviceRow> table :
       {device_rows(), cublas_device_rows(), cudnn_device_rows()})
    for (const DeviceRow& d : table)
      if (d.row.name == row.name && d.row.op == row.op) return &d;
  return nullptr;
}

std::span<const KernelRow> rows() {
  static const std::vector<KernelRow> all = [] {
    std::vector<KernelRow> list;
    for (const std::span<const DeviceRow> table :
         {device_rows(), cublas_device_rows(), cudnn_device_rows()})
      for (const DeviceRow& d : table) list.push_back(d.row);
    return list;
  }();
  return all;
}

}  // namespace etalon::cuda
