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

constexpr int kThreads = 256, kSettlingThreads = 128, kElements = 4 * kThreads, kResident = 5;

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

// The values of four neighbours, element i and behind; what is left open goes on the list.
template <int Code>
__device__ __forceinline__ float4 four_values(const DeviceFunctionTask& t, const float4& of,
                                              std::int64_t i, const UndecidedList& open_list) {
  union Elements {
    float4 four;
    float v[4];
  };
  const Elements x{of};
  Elements y;
  if constexpr (device_function_decides(Code)) {
#pragma unroll
    for (int k = 0; k < 4; ++k) y.v[k] = device_operation<Code>(t.params, x.v[k]);
  } else {
    // Side by side: the formula's constants are brought once, and the chains hide each other's
    // latency.
    double v[4];
    bool all = true;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
      v[k] = device_value<Code>(t.params, x.v[k]);
      all &= device_rounds<Code>(v[k], y.v[k]);
    }
    if (!all) {
      unsigned open = 0;
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (!device_rounds_anywhere<Code>(v[k], y.v[k])) open |= 1U << k;
#pragma unroll 1
      for (; open != 0; open &= open - 1)
        put_on_list(open_list, i + __ffs(static_cast<int>(open)) - 1);
    }
  }
  return y.four;
}

// Blocks stay on their multiprocessor and go over the tensor together; what comes next is on its
// way while this is computed. The last elements, fewer than a block has, one block takes one by
// one.
template <int Code>
__global__ void __launch_bounds__(kThreads, kResident)
    run_function(const __grid_constant__ DeviceFunctionTask t,
                 const __grid_constant__ UndecidedList open_list) {
  const std::int64_t whole = t.count / kElements;
  const auto* from = reinterpret_cast<const float4*>(t.x) + threadIdx.x;
  auto* to = reinterpret_cast<float4*>(t.to.y[0]) + threadIdx.x;
  std::int64_t block = blockIdx.x;
  float4 next = {};
  if (block < whole) next = from[block * kThreads];
#pragma unroll 1
  for (; block < whole; block += gridDim.x) {
    const float4 x = next;
    if (block + gridDim.x < whole) next = from[(block + gridDim.x) * kThreads];
    to[block * kThreads] = four_values<Code>(t, x, block * kElements + threadIdx.x * 4, open_list);
  }
  if (blockIdx.x != 0) return;
#pragma unroll 1
  for (std::int64_t i = whole * kElements + threadIdx.x; i < t.count; i += kThreads) {
    float y;
    if (!device_function<Code>(t.params, t.x[i], y)) put_on_list(open_list, i);
    t.to.y[0][i] = y;
  }
}

}  // namespace

int launch_function(const KernelCall& call, const OpenList& open, const UndecidedList& undecided,
                    void* stream) {
  const DeviceFunctionTask t = device_function_task(call);
  // As many as a device of 132 multiprocessors holds.
  const auto blocks = static_cast<unsigned>(
      std::clamp<std::int64_t>(t.count / kElements, 1, std::int64_t{132} * kResident));
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
