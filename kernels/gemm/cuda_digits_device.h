// The launches that the digits' products of matrices and of windows share (cuda_digits.h): a
// block's phases with barriers between them, and the instruction itself. Only nvcc includes this.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>

#include "kernels/backends/cuda/put_on_list.h"
#include "kernels/gemm/cuda_digits.h"

namespace etalon::cuda {

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

// The lanes' shares of a sum; lane 0 has all of it.
__device__ inline DigitDot joined_by_warp(DigitDot dot) {
  for (int step = 16; step > 0; step /= 2) {
    DigitDot other;
    other.sum = __shfl_down_sync(0xffffffffU, dot.sum, step);
    other.errors = __shfl_down_sync(0xffffffffU, dot.errors, step);
    other.magnitudes = __shfl_down_sync(0xffffffffU, dot.magnitudes, step);
    dot.merge(other);
  }
  return dot;
}

template <class Products, bool Long>
__global__ void __launch_bounds__(kDigitThreads, 1)
    multiply_digits(const __grid_constant__ typename Products::Task task,
                    const __grid_constant__ UndecidedList open) {
  extern __shared__ __align__(16) unsigned char memory[];
  DigitShared& shared = *reinterpret_cast<DigitShared*>(memory);
  const int tid = static_cast<int>(threadIdx.x);
  const DigitTask& t = Products::products(task);
  const DigitPlace p = digit_place(t, blockIdx.x);
  typename Products::Loader loader(task, p, tid);
  DigitThread r = {};
  LaneOfWarp w{r};
  const auto load = [&](int buffer, std::int64_t k0) {
    if (k0 < t.k_padded) loader.load(shared, buffer, k0);
    close_copies();
  };
  int current = 0;
  load(0, 0);
  for (std::int64_t k0 = 0; k0 < t.k_padded; k0 += kDigitStep) {
    load(1 - current, k0 + kDigitStep);
    wait_for_copies<1>();
    __syncthreads();  // what every thread fetched of this step is there
    digit_multiply(shared, current, tid / 32, w);
    if constexpr (Long)
      if (digit_folds(t, k0 + kDigitStep)) digit_fold(r);
    __syncthreads();  // nobody reads it any more
    current = 1 - current;
  }
  digit_store<Products, Long>(t, p, r, tid, [&](std::int64_t at) { put_on_list(open, at); });
}

template <class Products>
__global__ void __launch_bounds__(kDigitThreads)
    settle_digits(const __grid_constant__ typename Products::Task task,
                  const __grid_constant__ UndecidedList open,
                  const __grid_constant__ UndecidedList undecided) {
  const std::int64_t count = digit_open_count(Products::outputs(task), open);
  const std::int64_t warps = static_cast<std::int64_t>(gridDim.x) * (kDigitThreads / 32);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (std::int64_t i =
           static_cast<std::int64_t>(blockIdx.x) * (kDigitThreads / 32) + threadIdx.x / 32;
       i < count; i += warps) {
    const std::int64_t at = digit_open_at(open, i);
    const DigitDot dot = joined_by_warp(Products::dot(Products::products(task).t, at, lane));
    if (lane == 0 && !digit_settle<Products>(Products::products(task).t, at, dot))
      put_on_list(undecided, at);
  }
}

// What the first pass left open; of usual data one output in some hundred.
template <class Products>
cudaError_t launch_settle(const typename Products::Task& task, const UndecidedList& open,
                          const UndecidedList& undecided, cudaStream_t s) {
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>(1024, (Products::outputs(task) + 255) / 256));
  settle_digits<Products><<<blocks, kDigitThreads, 0, s>>>(task, open, undecided);
  return cudaGetLastError();
}

// Both passes over operands that are cut.
template <class Products>
cudaError_t launch_products(const typename Products::Task& task, const UndecidedList& open,
                            const UndecidedList& undecided, cudaStream_t s) {
  static_assert(sizeof(DigitShared) <= 99 << 10);  // what the smallest of these devices lends
  const DigitTask& t = Products::products(task);
  const auto kernel =
      t.k_padded > kDigitBlock ? multiply_digits<Products, true> : multiply_digits<Products, false>;
  cudaError_t code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                          static_cast<int>(sizeof(DigitShared)));
  if (code != cudaSuccess) return code;
  kernel<<<static_cast<unsigned>(t.blocks()), kDigitThreads, sizeof(DigitShared), s>>>(task, open);
  if (code = cudaGetLastError(); code != cudaSuccess) return code;
  return launch_settle<Products>(task, open, undecided, s);
}

}  // namespace etalon::cuda
