// The launch of device_lanes.h: four neighbouring elements a thread, 16 bytes at a time.
#include <cuda_runtime.h>

#include <algorithm>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/activation/device_lanes.h"
#include "kernels/backends/cuda/launches.h"

namespace etalon::cuda {
namespace {

constexpr unsigned kThreads = 256;

__device__ void put_on_list(const UndecidedList& list, std::int64_t i) {
  const auto place =
      static_cast<std::int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(list.count), 1ULL));
  if (place < list.capacity) list.places[place] = i;
}

// The definition behind the formulas, on what they left open. A kernel of its own: within each
// formula's it was a copy for each, and nine tenths of the time this file took to compile. Of
// usual data a launch leaves 2^-12 of its elements or fewer: blocks find nothing to do and end.
__global__ void __launch_bounds__(kThreads)
    settle_open(const __grid_constant__ DeviceFunctionTask t,
                const __grid_constant__ UndecidedList open,
                const __grid_constant__ UndecidedList undecided) {
  const std::int64_t count = open_count(t, open);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t k = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x; k < count;
       k += step) {
    const std::int64_t i = open_element(open, k);
    if (!device_slice<ActivationDefinition>(t.contract, t.plan, i, t.to)) put_on_list(undecided, i);
  }
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
    // One copy of the formula: four elements go through it in a circle and are in place again.
    unsigned open = 0;
#pragma unroll 1
    for (int k = 0; k < 4; ++k) {
      float y;
      if (!device_function<Code>(t.params, v.x, y)) open |= 1U << k;
      v = {v.y, v.z, v.w, y};
    }
    if (whole) {
      *reinterpret_cast<float4*>(t.to.y[0] + i) = v;
    } else {
      t.to.y[0][i] = v.x;
      if (i + 1 < t.count) t.to.y[0][i + 1] = v.y;
      if (i + 2 < t.count) t.to.y[0][i + 2] = v.z;
    }
    for (int k = 0; open != 0 && k < 4; ++k)
      if ((open >> k & 1U) != 0 && i + k < t.count) put_on_list(open_list, i + k);
  }
}

}  // namespace

int launch_function(const KernelCall& call, const UndecidedList& open,
                    const UndecidedList& undecided, void* stream) {
  const DeviceFunctionTask t = device_function_task(call);
  const auto blocks = static_cast<unsigned>(
      std::min<std::int64_t>((t.count + 4 * kThreads - 1) / (4 * kThreads), std::int64_t{1} << 20));
  const auto s = static_cast<cudaStream_t>(stream);
  with_device_function(
      t.code, [&]<int Code>() { run_function<Code><<<blocks, kThreads, 0, s>>>(t, open); });
  if (const cudaError_t error = cudaGetLastError(); error != cudaSuccess) return error;
  constexpr unsigned kMostSettling = 512;  // some for each multiprocessor of any device
  settle_open<<<std::min(4 * blocks, kMostSettling), kThreads, 0, s>>>(t, open, undecided);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
