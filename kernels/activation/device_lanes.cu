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

constexpr int kThreads = 256, kSettlingThreads = 128, kFours = 4 * kThreads;

// The definition behind the formulas, on what they left open. A kernel of its own: within each
// formula's it was a copy for each, and nine tenths of the time this file took to compile. The
// block that ends last leaves the list empty for the next run.
__global__ void __launch_bounds__(kSettlingThreads)
    settle_open(const __grid_constant__ DeviceFunctionTask t, const __grid_constant__ OpenList open,
                const __grid_constant__ UndecidedList undecided) {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");  // for the list: it is there early
#endif
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

// A block has kVectors times four neighbours of each thread, all on their way before the first is
// computed: on an H200 that hid more of memory's latency than blocks that stay and read ahead.
template <int Code, int kVectors>
__global__ void __launch_bounds__(kThreads, kVectors == 1 ? 8 : 4)
    run_function(const __grid_constant__ DeviceFunctionTask t,
                 const __grid_constant__ UndecidedList open_list) {
  std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * (kFours * kVectors);
  const std::int64_t end = first + kFours * kVectors;
  const auto* from = reinterpret_cast<const float4*>(t.x) + threadIdx.x;
  auto* to = reinterpret_cast<float4*>(t.to.y[0]) + threadIdx.x;
  if (end <= t.count) {
    float4 x[kVectors];
#pragma unroll
    for (int j = 0; j < kVectors; ++j) x[j] = from[first / 4 + j * kThreads];
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
      to[first / 4 + j * kThreads] =
          four_values<Code>(t, x[j], first + j * kFours + threadIdx.x * 4, open_list);
    return;
  }
#pragma unroll 1
  for (; first + kFours <= t.count; first += kFours)
    to[first / 4] = four_values<Code>(t, from[first / 4], first + threadIdx.x * 4, open_list);
#pragma unroll 1
  for (std::int64_t i = first + threadIdx.x; i < t.count; i += kThreads) {
    float y;
    if (!device_function<Code>(t.params, t.x[i], y)) put_on_list(open_list, i);
    t.to.y[0][i] = y;
  }
}

// Does the device's code for settle_open wait for the launch before it?
bool settles_by_itself() {
  static const bool waits = [] {
    cudaFuncAttributes facts{};
    return cudaFuncGetAttributes(&facts, settle_open) == cudaSuccess && facts.ptxVersion >= 90;
  }();
  return waits;
}

template <int Code, int kVectors>
void launch_blocks(const DeviceFunctionTask& t, const UndecidedList& open, cudaStream_t s) {
  constexpr std::int64_t kEach = kFours * kVectors;
  run_function<Code, kVectors>
      <<<static_cast<unsigned>((t.count + kEach - 1) / kEach), kThreads, 0, s>>>(t, open);
}

}  // namespace

int launch_function(const KernelCall& call, const OpenList& open, const UndecidedList& undecided,
                    void* stream) {
  const DeviceFunctionTask t = device_function_task(call);
  const auto s = static_cast<cudaStream_t>(stream);
  with_device_function(t.code, [&]<int Code>() {
    // What one operation decides has enough on its way with four elements a thread, and so have
    // tensors that do not fill a device eight times over.
    constexpr std::int64_t kMany = std::int64_t{1} << 23;
    if constexpr (!device_function_decides(Code))
      if (t.count >= kMany) return launch_blocks<Code, 4>(t, open.list, s);
    launch_blocks<Code, 1>(t, open.list, s);
  });
  if (const cudaError_t error = cudaGetLastError();
      error != cudaSuccess || device_function_decides(t.code))
    return error;
  // A thread for each place, some blocks for each multiprocessor of any device.
  constexpr std::int64_t kMostSettling = 512;
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(
      std::min((open.list.capacity + kSettlingThreads - 1) / kSettlingThreads, kMostSettling));
  config.blockDim = kSettlingThreads;
  config.stream = s;
  config.attrs = &early;
  config.numAttrs = settles_by_itself() ? 1 : 0;
  return cudaLaunchKernelEx(&config, settle_open, t, open, undecided);
}

}  // namespace etalon::cuda
