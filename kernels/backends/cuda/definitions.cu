// One thread a slice, the very text that the CPU runs (device_definition.h).
#include <cuda_runtime.h>

#include <algorithm>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/device_definition.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/move.h"
#include "kernels/backends/cuda/put_on_list.h"

namespace etalon::cuda {
namespace {

constexpr unsigned kThreads = 128;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(
      std::min<std::int64_t>((count + kThreads - 1) / kThreads, std::int64_t{1} << 20));
}

// Places in the list are taken by an integer atomic: their sequence has no meaning, the host sorts
// them.
template <class D>
__global__ void run_slices(const __grid_constant__ DeviceContract contract,
                           const __grid_constant__ typename DevicePlan<D>::Plan plan,
                           const __grid_constant__ DeviceOutputs to, std::int64_t slices,
                           const __grid_constant__ UndecidedList list) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < slices; i += step)
    if (!device_slice<D>(contract, plan, i, to)) put_on_list(list, i);
}

template <class D>
int launch(const KernelCall& call, const UndecidedList& list, void* stream) {
  const auto plan = DevicePlan<D>::of(call);
  const std::int64_t slices = DevicePlan<D>::slices(plan);
  if (slices == 0) return cudaSuccess;
  run_slices<D><<<blocks_for(slices), kThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      device_contract<D>(call), plan, device_outputs(call), slices, list);
  return cudaGetLastError();
}

template <class U>
__global__ void run_move(const __grid_constant__ MoveTask task) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
       i < task.count; i += step)
    move_element<U>(task, i);
}

}  // namespace

int launch_definition(const KernelCall& call, const UndecidedList& undecided, void* stream) {
  int code = cudaSuccess;
  bool found = false;
  for_each_device_definition([&]<class D>() {
    if (found || !device_takes<D>(call)) return;
    found = true;
    code = launch<D>(call, undecided, stream);
  });
  if (!found) throw internal_error("no definition of {} runs on a device", call.problem->op->name);
  return code;
}

int launch_move(const MoveTask& task, void* stream) {
  const auto s = static_cast<cudaStream_t>(stream);
  switch (task.element_bytes) {
    case 1:
      run_move<std::uint8_t><<<blocks_for(task.count), kThreads, 0, s>>>(task);
      break;
    case 2:
      run_move<std::uint16_t><<<blocks_for(task.count), kThreads, 0, s>>>(task);
      break;
    case 4:
      run_move<std::uint32_t><<<blocks_for(task.count), kThreads, 0, s>>>(task);
      break;
    default:
      run_move<std::uint64_t><<<blocks_for(task.count), kThreads, 0, s>>>(task);
  }
  return cudaGetLastError();
}

}  // namespace etalon::cuda
