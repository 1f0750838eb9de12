// One thread a slice, the very text that the CPU runs (device_definition.h).
#include <algorithm>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/check.cuh"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/device_definition.h"

namespace etalon::cuda {
namespace {

// Places in `undecided` are taken by an integer atomic: their sequence has no meaning, the host
// sorts them.
template <class D>
__global__ void run_slices(const __grid_constant__ DeviceContract contract,
                           const __grid_constant__ typename DevicePlan<D>::Plan plan, float* y,
                           std::int64_t slices, unsigned long long* undecided_count,
                           long long* undecided) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < slices; i += step)
    if (!device_slice<D>(contract, plan, i, y)) undecided[atomicAdd(undecided_count, 1ULL)] = i;
}

template <class D>
std::vector<std::int64_t> launch(const CallOnDevice& on_device) {
  const KernelCall& call = on_device.call();
  const auto plan = DevicePlan<D>::of(call);
  const std::int64_t slices = DevicePlan<D>::slices(plan);
  if (slices == 0) return {};
  DeviceBuffer list((static_cast<std::size_t>(slices) + 1) * sizeof(std::int64_t));
  const std::int64_t none = 0;
  list.upload(std::as_bytes(std::span(&none, 1)));
  auto* const count = static_cast<unsigned long long*>(list.get());
  constexpr unsigned kThreads = 128;
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((slices + kThreads - 1) / kThreads, std::int64_t{1} << 20));
  run_slices<D><<<blocks, kThreads, 0, static_cast<cudaStream_t>(stream())>>>(
      device_contract<D>(call), plan, on_device.y(), slices, count,
      reinterpret_cast<long long*>(count + 1));
  check(cudaGetLastError(), "the kernel's launch");
  std::int64_t found = 0;
  list.download(std::as_writable_bytes(std::span(&found, 1)));
  std::vector<std::int64_t> undecided(static_cast<std::size_t>(found) + 1);
  if (found > 0) list.download(std::as_writable_bytes(std::span(undecided)));
  undecided.erase(undecided.begin());
  std::sort(undecided.begin(), undecided.end());
  return undecided;
}

}  // namespace

std::vector<std::int64_t> launch_definition(std::string_view op, const CallOnDevice& call) {
  std::vector<std::int64_t> undecided;
  bool found = false;
  for_each_device_definition([&]<class D>() {
    for (const std::string_view name : device_ops<D>()) {
      if (name != op) continue;
      found = true;
      undecided = launch<D>(call);
    }
  });
  if (!found) throw internal_error("no definition of {} runs on a device", op);
  return undecided;
}

}  // namespace etalon::cuda
