// The launches of cuda_digits.h: phases of a block with barriers between them, and the instruction
// itself.
#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/backends/cuda/block_threads.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/gemm/cuda_digits.h"

namespace etalon::cuda {
namespace {

template <bool right>
__global__ void __launch_bounds__(kDigitPackThreads) cut(const __grid_constant__ DigitTask t) {
  __shared__ DigitPackShared shared;
  digit_pack(t, right ? t.b : t.a, blockIdx.x, shared, BlockThreads{});
}

struct LaneOfWarp {
  static constexpr int kLanes = 1;
  DigitThread& r;
  __device__ int lane(int) const { return static_cast<int>(threadIdx.x % 32); }
  __device__ void mma(int level, int f, const std::uint32_t (&a)[1][kDigits][4], int i,
                      const std::uint32_t (&b)[1][kDigits][2], int j) const {
    std::int32_t(&d)[4] = r.sum[level][f];
    asm volatile(
        "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0][i][0]), "r"(a[0][i][1]), "r"(a[0][i][2]), "r"(a[0][i][3]), "r"(b[0][j][0]),
          "r"(b[0][j][1]));
  }
};

__device__ void put_on_list(const UndecidedList& list, std::int64_t i) {
  const auto place =
      static_cast<std::int64_t>(atomicAdd(reinterpret_cast<unsigned long long*>(list.count), 1ULL));
  if (place < list.capacity) list.places[place] = i;
}

__global__ void __launch_bounds__(kDigitThreads, 1)
    multiply(const __grid_constant__ DigitTask t, const __grid_constant__ UndecidedList open) {
  extern __shared__ __align__(16) unsigned char memory[];
  DigitShared& shared = *reinterpret_cast<DigitShared*>(memory);
  const int tid = static_cast<int>(threadIdx.x);
  const DigitPlace p = digit_place(t, blockIdx.x);
  DigitThread r = {};
  LaneOfWarp w{r};
  const auto load = [&](int buffer, std::int64_t k0) {
    if (k0 < t.k_padded) digit_load(t, p, shared, buffer, k0, tid);
    close_copies();
  };
  int current = 0;
  load(0, 0);
  for (std::int64_t k0 = 0; k0 < t.k_padded; k0 += kDigitStep) {
    load(1 - current, k0 + kDigitStep);
    wait_for_copies<1>();
    __syncthreads();  // what every thread fetched of this step is there
    digit_multiply(shared, current, tid / 32, w);
    __syncthreads();  // nobody reads it any more
    current = 1 - current;
  }
  digit_store(t, p, r, tid, [&](std::int64_t at) { put_on_list(open, at); });
}

__global__ void __launch_bounds__(kDigitThreads)
    settle(const __grid_constant__ DigitTask t, const __grid_constant__ UndecidedList open,
           const __grid_constant__ UndecidedList undecided) {
  const std::int64_t count = digit_open_count(t, open);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kDigitThreads / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * (kDigitThreads / 32) + threadIdx.x / 32;
       i < count; i += warps) {
    const std::int64_t at = digit_open_at(open, i);
    DigitDot dot = digit_dot(t, at, lane);
    for (int step = 16; step > 0; step /= 2) {
      DigitDot other;
      other.sum = __shfl_down_sync(0xffffffffU, dot.sum, step);
      other.errors = __shfl_down_sync(0xffffffffU, dot.errors, step);
      other.magnitudes = __shfl_down_sync(0xffffffffU, dot.magnitudes, step);
      dot.merge(other);
    }
    if (lane == 0 && !digit_settle(t, at, dot)) put_on_list(undecided, at);
  }
}

}  // namespace

int launch_digits(const KernelCall& call, const DigitMemory& memory, const UndecidedList& open,
                  const UndecidedList& undecided, void* stream) {
  const DigitTask t = digit_task(call, memory);
  const auto s = static_cast<cudaStream_t>(stream);
  static_assert(sizeof(DigitShared) <= 99 << 10);  // what the smallest of these devices lends
  cudaError_t code = cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(sizeof(DigitShared)));
  if (code != cudaSuccess) return code;
  cut<false><<<static_cast<unsigned>(t.pack_blocks(t.a)), kDigitPackThreads, 0, s>>>(t);
  if (code = cudaGetLastError(); code != cudaSuccess) return code;
  cut<true><<<static_cast<unsigned>(t.pack_blocks(t.b)), kDigitPackThreads, 0, s>>>(t);
  if (code = cudaGetLastError(); code != cudaSuccess) return code;
  multiply<<<static_cast<unsigned>(t.blocks()), kDigitThreads, sizeof(DigitShared), s>>>(t, open);
  if (code = cudaGetLastError(); code != cudaSuccess) return code;
  // Of usual data one output in some hundred is open.
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(1024, (t.products * t.t.y_batch + 255) / 256));
  settle<<<blocks, kDigitThreads, 0, s>>>(t, open, undecided);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
