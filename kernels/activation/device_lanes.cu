// The launch of device_lanes.h: four neighbouring elements a thread, 16 bytes at a time.
#include <cuda_runtime.h>

#include <algorithm>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/activation/device_lanes.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/put_on_list.h"

namespace etalon::cuda {
namespace {

constexpr unsigned kThreads = 256, kSettlingThreads = 128;

// The definition behind the formulas, on what they left open. A kernel of its own: within each
// formula's it was a copy for each, and nine tenths of the time this file took to compile. The
// block that ends last leaves the list empty for the next run.
__global__ void __launch_bounds__(kSettlingThreads)
    settle_open(const __grid_constant__ DeviceFunctionTask t, const __grid_constant__ OpenList open,
                const __grid_constant__ UndecidedList undecided) {
  const std::int64_t count = open_count(t, open.list);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kSettlingThreads;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * kSettlingThreads + threadIdx.x;
       k < count; k += step) {
    const std::int64_t i = open_element(open.list, k);
    if (!device_slice<ActivationDefinition>(t.contract, t.plan, i, t.to)) put_on_list(undecided, i);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  __threadfence();
  // Counts to the last block and begins anew.
  if (atomicInc(open.finished, gridDim.x - 1) == gridDim.x - 1) *open.list.count = 0;
}

template <int Code>
__global__ void __launch_bounds__(kThreads)
    run_function(const __grid_constant__ DeviceFunctionTask t,
                 const __grid_constant__ UndecidedList open_list) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads * 4;
  for (std::int64_t i = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * 4;
       i < t.count; i += step) {
    // Blocks of the pool begin at multiples of 512 bytes.
    const bool whole = i + 4 <= t.count;
    float4 v = {};
    if (whole) {
      v = *reinterpret_cast<const float4*>(t.x + i);
    } else {
      v.x = t.x[i];
      if (i + 1 < t.count) v.y = t.x[i + 1];
      if (i + 2 < t.count) v.z = t.x[i + 2];
    }
    // Side by side: the formula's constants are brought once, and the four chains hide each other's
    // latency.
    unsigned open = 0;
    float* const each[] = {&v.x, &v.y, &v.z, &v.w};
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      float y;
      if (!device_function<Code>(t.params, *each[k], y)) open |= 1U << k;
      *each[k] = y;
    }
    if (whole) {
      *reinterpret_cast<float4*>(t.to.y[0] + i) = v;
    } else {
      t.to.y[0][i] = v.x;
      if (i + 1 < t.count) t.to.y[0][i + 1] = v.y;
      if (i + 2 < t.count) t.to.y[0][i + 2] = v.z;
    }
    if constexpr (!device_function_decides(Code))
      for (int k = 0; open != 0 && k < 4; ++k)
        if ((open >> k & 1U) != 0 && i + k < t.count) put_on_list(open_list, i + k);
  }
}

}  // namespace

int launch_function(const KernelCall& call, const OpenList& open, const UndecidedList& undecided,
                    void* stream) {
  const DeviceFunctionTask t = device_function_task(call);
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((t.count + 4 * kThreads - 1) / (4 * kThreads), std::int64_t{1} << 20));
  const auto s = static_cast<cudaStream_t>(stream);
  with_device_function(
      t.code, [&]<int Code>() { run_function<Code><<<blocks, kThreads, 0, s>>>(t, open.list); });
  if (device_function_decides(t.code)) return cudaGetLastError();
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  // A thread for each place, some blocks for each multiprocessor of any device.
  constexpr std::int64_t kMostSettling = 512;
  const auto settling = static_cast<unsigned>(
      std::min((open.list.capacity + kSettlingThreads - 1) / kSettlingThreads, kMostSettling));
  settle_open<<<settling, kSettlingThreads, 0, s>>>(t, open, undecided);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
