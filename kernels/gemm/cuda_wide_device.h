// The launches that cuda_wide.h's products of matrices and of windows share: a block with its
// barriers, and the instruction itself. Only nvcc includes this.
#pragma once

#include <cuda_runtime.h>

#include "kernels/gemm/cuda_digits_device.h"
#include "kernels/gemm/cuda_wide.h"

namespace etalon::cuda {

template <class Thread>
struct LaneOfWideWarp {
  static constexpr int kLanes = 1;
  Thread& r;
  __device__ int lane(int) const { return static_cast<int>(threadIdx.x % 32); }
  __device__ bool leads() const { return threadIdx.x % 32 == 0; }
  template <class F>
  __device__ std::uint32_t where(F&& f) const {
    return __ballot_sync(0xffffffffU, f(lane(0)));
  }
  // m16n8k8; before sm_90 as its four quarters of m8n8k4.
  template <class A, class B>
  __device__ void mma(int i, int j, const A& a, const B& b) const {
    double(&c)[4] = r.sum[i][j];
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0][i][0]), "d"(a[0][i][1]), "d"(a[0][i][2]), "d"(a[0][i][3]), "d"(b[0][j][0]),
          "d"(b[0][j][1]));
#else
    ETALON_UNROLL
    for (int k = 0; k < 2; ++k) ETALON_UNROLL
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                   : "+d"(c[half * 2]), "+d"(c[half * 2 + 1])
                   : "d"(a[0][i][k * 2 + half]), "d"(b[0][j][k]));
#endif
  }
  template <class F>
  __device__ DigitDot dot(F&& share) const {
    return joined_by_warp(share(lane(0)));
  }
};

template <class Thread>
struct WideThreads {
  Thread& r;
  template <class F>
  __device__ void threads(F&& f) const {
    f(r, static_cast<int>(threadIdx.x));
  }
  template <class F>
  __device__ void warps(F&& f) const {
    LaneOfWideWarp<Thread> w{r};
    f(static_cast<int>(threadIdx.x / 32), w);
  }
  __device__ void barrier() const { __syncthreads(); }
  template <int left>
  __device__ void arrived() const {
    wait_for_copies<left>();
    __syncthreads();
  }
};

// An SM takes four blocks, or three of 64 x 64 where four would leave a thread too few registers:
// folds, windows, both operands with k side by side.
template <class Shape, bool Conv>
inline constexpr int kWideBlocks =
    Shape::kTile == 64 && (Shape::kFolded || Conv || Shape::kBothKMajor) ? 3 : 4;

template <class Shape, class Products, bool Conv>
__global__ void __launch_bounds__(kWideThreads, (kWideBlocks<Shape, Conv>))
    multiply_wide(const __grid_constant__ WideTask task,
                  const __grid_constant__ UndecidedList undecided) {
  extern __shared__ __align__(16) unsigned char memory[];
  typename Shape::Thread r;
  WideBlock<Shape, Products, Conv>::run(
      task, blockIdx.x, *reinterpret_cast<typename Shape::Shared*>(memory),
      WideThreads<typename Shape::Thread>{r}, [](std::int64_t) {},
      [&](std::int64_t at) { put_on_list(undecided, at); });
}

template <class Products>
__global__ void __launch_bounds__(kWideThreads)
    finish_wide(const __grid_constant__ WideTask task,
                const __grid_constant__ UndecidedList undecided) {
  struct None {
  } none;
  LaneOfWideWarp<None> w{none};
  wide_finish<Products>(
      task, static_cast<std::int64_t>(blockIdx.x) * kWideThreads + threadIdx.x / 32 * 32, w,
      [](std::int64_t) {}, [&](std::int64_t at) { put_on_list(undecided, at); });
}

template <class Products, bool Conv>
cudaError_t launch_wide_products(const WideTask& task, const UndecidedList& undecided,
                                 cudaStream_t s) {
  cudaError_t code = with_wide_shape<Products, Conv>(task, [&]<class Shape>() {
    constexpr int kBytes = static_cast<int>(sizeof(typename Shape::Shared));
    static_assert(kBytes <= 99 << 10);  // what the smallest of these devices lends
    const auto kernel = multiply_wide<Shape, Products, Conv>;
    const cudaError_t set =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (set != cudaSuccess) return set;
    kernel<<<static_cast<unsigned>(task.blocks()), kWideThreads, kBytes, s>>>(task, undecided);
    return cudaGetLastError();
  });
  if (code != cudaSuccess || task.splits == 1) return code;
  finish_wide<Products><<<static_cast<unsigned>((task.outputs() + kWideThreads - 1) / kWideThreads),
                          kWideThreads, 0, s>>>(task, undecided);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
