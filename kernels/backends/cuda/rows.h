// The rows of the ops that run on a GPU, and what each puts on the stream.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "engine/backend/kernel.h"
#include "kernels/backends/cuda/device.h"

namespace etalon::cuda {

// Puts the kernels of one call on the stream and returns; floating tensors of the call lie on the
// device, integer inputs on the host.
using Enqueue = void (*)(const KernelCall& on_device, Work& work);

struct DeviceRow {
  KernelRow row;  // its `run` copies inputs to the device, enqueues, and copies the outputs back
  Enqueue enqueue = nullptr;
  bool alias = false;  // the output is input 0 under another shape
  // Of a problem that the row takes. For the record: what a library says of its choice; and whether
  // it compiles that choice first, which may take seconds.
  std::string (*note)(const Problem&) = nullptr;
  bool (*compiles)(const Problem&) = nullptr;
};

// This program's own kernels.
std::span<const DeviceRow> device_rows();
// Those of all rows of a registry (vendors' too); nullptr for a row of the CPU.
const DeviceRow* find_device_row(const KernelRow& row);
// The same as rows of a registry.
std::span<const KernelRow> rows();

// For the tables of rows: `run` of a row that enqueues f.
void run_with_copies(const KernelCall& host, Enqueue f);
template <Enqueue f>
void run_enqueued(const KernelCall& host) {
  run_with_copies(host, f);
}
// A vendor's row.
template <Enqueue f>
DeviceRow vendor_row(std::string_view op, std::string_view name, Refusal (*refuse)(const Problem&),
                     std::string (*version)()) {
  return {.row = {.op = op,
                  .name = name,
                  .promise = Promise::vendor,
                  .device = Device::cuda,
                  .contracts = "none",
                  .refuse = refuse,
                  .run = run_enqueued<f>,
                  .version = version},
          .enqueue = f};
}
// Computes the slices that a device left undecided: the op's definition on the CPU, over the ladder
// of real.h. All tensors lie on the host.
void settle_on_host(const KernelCall& call, std::span<const std::int64_t> undecided);

// The device and commit on which a row's bits were compared with the CPU's, as docs/evidence has
// it, and whether the row has changed since; "never" where no hardware has.
std::string_view seen_on(std::string_view row);

}  // namespace etalon::cuda
