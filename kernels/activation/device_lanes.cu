// The launch of device_lanes.h: four neighbouring elements a thread, 16 bytes at a time. What a
// thread's first pass leaves open the thread computes itself, once all it has is on its way to
// memory: a second kernel for that took 5 us of every call, most of which had nothing to do.
#include <cuda_runtime.h>

#include "engine/numerics/elementary/functions_f64_inl.h"
#include "engine/numerics/real_f64_inl.h"
#include "kernels/activation/device_lanes.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/put_on_list.h"

namespace etalon::cuda {
namespace {

// Called, not inlined: a kernel's first pass keeps its registers. (ptxas compiles it for each
// kernel anew, which is most of the time this file takes.)
__device__ __noinline__ void settle_by_definition(const DeviceFunctionTask& t, std::int64_t i,
                                                  const UndecidedList& undecided) {
  if (!device_slice<ActivationDefinition>(t.contract, t.plan, i, t.to)) put_on_list(undecided, i);
}
template <LaneFunction F>
__device__ __noinline__ void settle(const DeviceFunctionTask& t, std::int64_t i,
                                    const UndecidedList& undecided) {
  float y;
  if (DeviceFine<F>::function(t.params, t.x[i], y))
    t.to.y[0][i] = y;
  else
    settle_by_definition(t, i, undecided);
}

union Four {
  float4 all;
  float v[4];
};

// The values of four neighbours; bits `shift` and on of `open` say which of them mean nothing. Side
// by side: the chains hide each other's latency.
template <int Code>
__device__ __forceinline__ float4 four_values(const LaneParams& p, const float4& of, int shift,
                                              unsigned& open) {
  const Four x{of};
  Four y;
  if constexpr (device_function_decides(Code)) {
#pragma unroll
    for (int k = 0; k < 4; ++k) y.v[k] = device_operation<Code>(p, x.v[k]);
  } else {
    using Quick = DeviceQuick<static_cast<LaneFunction>(Code), RowsInShared>;
    double v[4];
    bool decided[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) v[k] = Quick::value(x.v[k], p);
#pragma unroll
    for (int k = 0; k < 4; ++k) decided[k] = Quick::decided(p, v[k], x.v[k], y.v[k]);
    if (!(decided[0] & decided[1] & decided[2] & decided[3])) {
#pragma unroll
      for (int k = 0; k < 4; ++k) open |= (decided[k] ? 0U : 1U) << (shift + k);
    }
  }
  return y.all;
}

template <int Code>
constexpr int rows_of_code() {
  return Code < kLaneFunctionCount ? device_row_count(static_cast<LaneFunction>(Code)) : 0;
}

// A block has `vectors` times four neighbours of each thread: kVectors, all on their way before the
// first is computed, or one. On an H200 blocks that stay and read ahead took a third more.
template <int Code, int kVectors, int kThreads, int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks)
    run_function(const __grid_constant__ DeviceFunctionTask t,
                 const __grid_constant__ UndecidedList undecided, const int vectors) {
  constexpr int kFours = 4 * kThreads;
  constexpr int kRows = rows_of_code<Code>();
  constexpr bool kPairs =
      Code < kLaneFunctionCount && device_row_pairs(static_cast<LaneFunction>(Code));
  const std::int64_t each = std::int64_t{kFours} * vectors;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * each + threadIdx.x * 4;
  const auto bring_rows = [&] {
    if constexpr (kPairs) {  // all on their way at once
      const auto* const rows = reinterpret_cast<const double2*>(
          device_row_pairs_source<static_cast<LaneFunction>(Code)>());
      auto* const shared = reinterpret_cast<double2*>(device_shared_rows);
#pragma unroll
      for (int i = 0; i < kRows / 2; i += kThreads)
        if (const int row = i + static_cast<int>(threadIdx.x); row < kRows / 2)
          shared[row] = rows[row];
      __syncthreads();
    } else if constexpr (kRows != 0) {
      if (const int i = static_cast<int>(threadIdx.x); i < kRows)
        device_shared_rows[i] = device_row_source<static_cast<LaneFunction>(Code)>(i);
      __syncthreads();
    }
  };
  static_assert(kRows <= kThreads || kPairs);
  unsigned open = 0;
  const auto* const from = reinterpret_cast<const float4*>(t.x + first);
  auto* const to = reinterpret_cast<float4*>(t.to.y[0] + first);
  if (vectors == kVectors && (blockIdx.x + std::int64_t{1}) * each <= t.count) {
    float4 x[kVectors];
#pragma unroll
    for (int j = 0; j < kVectors; ++j) x[j] = from[j * kThreads];
    bring_rows();
#pragma unroll
    for (int j = 0; j < kVectors; ++j)
      to[j * kThreads] = four_values<Code>(t.params, x[j], 4 * j, open);
  } else {
#pragma unroll 1
    for (int j = 0; j < vectors; ++j) {
      const std::int64_t left = t.count - (first + j * kFours);
      Four x{};
      if (left >= 4)
        x.all = from[j * kThreads];
      else
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (k < left) x.v[k] = t.x[t.count - left + k];
      if (j == 0) bring_rows();
      unsigned bits = 0;
      const Four y{four_values<Code>(t.params, x.all, 0, bits)};
      if (left >= 4) {
        to[j * kThreads] = y.all;
      } else {
#pragma unroll
        for (int k = 0; k < 4; ++k)
          if (k < left) t.to.y[0][t.count - left + k] = y.v[k];
        bits &= left <= 0 ? 0U : (1U << left) - 1U;
      }
      open |= bits << (4 * j);
    }
  }
  if constexpr (!device_function_decides(Code)) {
    for (; open != 0; open &= open - 1) {
      const int bit = __ffs(static_cast<int>(open)) - 1;
      settle<static_cast<LaneFunction>(Code)>(t, first + bit / 4 * kFours + bit % 4, undecided);
    }
  }
}

template <int Code, int kVectors, int kThreads, int kBlocks>
void launch_blocks(const DeviceFunctionTask& t, const UndecidedList& undecided, cudaStream_t s) {
  // Tensors that do not fill a device eight times over have enough on their way with one.
  constexpr std::int64_t kMany = std::int64_t{1} << 23;
  const int vectors = t.count >= kMany ? kVectors : 1;
  const std::int64_t each = std::int64_t{4} * kThreads * vectors;
  run_function<Code, kVectors, kThreads, kBlocks>
      <<<static_cast<unsigned>((t.count + each - 1) / each), kThreads,
         rows_of_code<Code>() * sizeof(double), s>>>(t, undecided, vectors);
}

}  // namespace

int launch_function(const KernelCall& call, const UndecidedList& undecided, void* stream) {
  const DeviceFunctionTask t = device_function_task(call);
  const auto s = static_cast<cudaStream_t>(stream);
  with_device_function(t.code, [&]<int Code>() {
    if constexpr (device_function_decides(Code))  // has enough on its way with four a thread
      launch_blocks<Code, 1, 256, 8>(t, undecided, s);
    // Smaller blocks would bring more rows for an element; a larger one lasts longer, for it more
    // often has an element that is open.
    else if constexpr (rows_of_code<Code>() > 256)
      launch_blocks<Code, 4, 256, 4>(t, undecided, s);
    else
      launch_blocks<Code, 4, 128, 8>(t, undecided, s);
  });
  return cudaGetLastError();
}

}  // namespace etalon::cuda
