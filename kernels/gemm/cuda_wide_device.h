// The launches that cuda_wide.h's products of matrices and of windows share: a block with its
// barriers, and the instruction itself. Only nvcc includes this.
#pragma once

#include <cuda_runtime.h>

#include "kernels/gemm/cuda_digits_device.h"
#include "kernels/gemm/cuda_wide_choice.h"

namespace etalon::cuda {

template <class Thread>
struct LaneOfWideWarp {
  Thread& r;
  __device__ bool leads() const { return threadIdx.x % 32 == 0; }
  // m16n8k8; before sm_90 as its four quarters of m8n8k4.
  __device__ void mma(int i, int j) const {
    double(&c)[4] = r.sum[i][j];
    const double(&a)[4] = r.a[i];
    const double(&b)[2] = r.b[j];
#if __CUDA_ARCH__ >= 900
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
        : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(b[0]), "d"(b[1]));
#else
    ETALON_UNROLL
    for (int k = 0; k < 2; ++k) ETALON_UNROLL
    for (int half = 0; half < 2; ++half)
      asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                   : "+d"(c[half * 2]), "+d"(c[half * 2 + 1])
                   : "d"(a[k * 2 + half]), "d"(b[k]));
#endif
  }
  // The lanes' shares; lane 0 has all.
  template <class Sum, class F>
  __device__ Sum join(F&& share) const {
    constexpr int kDoubles = sizeof(Sum) / sizeof(double);
    union Parts {
      __device__ Parts() {}
      Sum sum;
      double part[kDoubles];
    };
    Sum sum = share(static_cast<int>(threadIdx.x % 32));
    ETALON_UNROLL
    for (int step = 16; step > 0; step /= 2) {
      Parts own, other;
      own.sum = sum;
      ETALON_UNROLL
      for (int i = 0; i < kDoubles; ++i)
        other.part[i] = __shfl_down_sync(0xffffffffU, own.part[i], step);
      sum.merge(other.sum);
    }
    return sum;
  }
};

// What the launches before this one wrote is there; what is behind it may come early.
__device__ inline void wait_for_launches() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" : : : "memory");
  asm volatile("griddepcontrol.launch_dependents;" : : : "memory");
#endif
}

// The row of residues has decided that it takes the call.
__device__ inline bool left_to_residues(const WideTask& task) {
  if (task.forecast == nullptr) return false;
  wait_for_launches();
  return task.left_to_residues();
}

template <class Thread, int Threads>
struct WideThreads {
  static constexpr int kWarps = Threads / 32;
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
  __device__ void begin() const { wait_for_launches(); }
  __device__ int take(int& count) const { return atomicAdd(&count, 1); }
  __device__ void barrier() const { __syncthreads(); }
  template <int left>
  __device__ void arrived() const {
    wait_for_copies<left>();
    __syncthreads();
  }
};

template <class Shape, class Products, bool Conv>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    multiply_wide(const __grid_constant__ WideTask task,
                  const __grid_constant__ UndecidedList undecided) {
  extern __shared__ __align__(16) unsigned char memory[];
  if (left_to_residues(task)) return;
  typename Shape::Thread r;
  WideBlock<Shape, Products, Conv>::run(
      task, blockIdx.x, *reinterpret_cast<typename Shape::Shared*>(memory),
      WideThreads<typename Shape::Thread, Shape::kThreads>{r}, [](std::int64_t) {},
      [&](std::int64_t at) { put_on_list(undecided, at); });
}

struct NoThread {};

template <class Products>
__global__ void __launch_bounds__(kWideFinish)
    finish_wide(const __grid_constant__ WideTask task,
                const __grid_constant__ UndecidedList undecided) {
  __shared__ WideFinishShared shared;
  if (left_to_residues(task)) return;
  NoThread none;
  wide_finish<Products>(
      task, static_cast<std::int64_t>(blockIdx.x) * kWideFinish, shared,
      WideThreads<NoThread, kWideFinish>{none}, [](std::int64_t) {},
      [&](std::int64_t at) { put_on_list(undecided, at); });
}

template <bool Fours>
__global__ void __launch_bounds__(kThinThreads)
    multiply_thin(const __grid_constant__ WideTask task,
                  const __grid_constant__ UndecidedList undecided) {
  __shared__ ThinShared shared;
  if (left_to_residues(task)) return;
  NoThread none;
  run_thin<Fours>(
      task, blockIdx.x, shared, WideThreads<NoThread, kThinThreads>{none}, [](std::int64_t) {},
      [&](std::int64_t at) { put_on_list(undecided, at); });
}

// Launches whose blocks come before the launch before them has ended, and wait for it; on sm_90.
template <class Kernel>
cudaError_t launch_early(Kernel kernel, std::int64_t blocks, int threads, int bytes,
                         cudaStream_t stream, const WideTask& task,
                         const UndecidedList& undecided) {
  static const bool early = [] {
    int device = 0, major = 0;
    return cudaGetDevice(&device) == cudaSuccess &&
           cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) ==
               cudaSuccess &&
           major >= 9;
  }();
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = static_cast<unsigned>(blocks);
  config.blockDim = static_cast<unsigned>(threads);
  config.dynamicSmemBytes = static_cast<std::size_t>(bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, task, undecided);
}

template <class Products, bool Conv>
cudaError_t launch_wide_products(const WideTask& task, const UndecidedList& undecided,
                                 cudaStream_t s) {
  if constexpr (!Conv)
    if (task.thin > 0)
      return launch_early(task.a.fours && task.b.fours ? multiply_thin<true> : multiply_thin<false>,
                          task.blocks(), kThinThreads, 0, s, task, undecided);
  const cudaError_t code = with_wide_shape<Products, Conv>(task, [&]<class Shape>() {
    constexpr int kBytes = static_cast<int>(sizeof(typename Shape::Shared));
    static_assert(kBytes <= 99 << 10);  // what the smallest of these devices lends
    const auto kernel = multiply_wide<Shape, Products, Conv>;
    const cudaError_t set =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
    if (set != cudaSuccess) return set;
    return launch_early(kernel, task.blocks(), Shape::kThreads, kBytes, s, task, undecided);
  });
  if (code != cudaSuccess || task.splits == 1) return code;
  return launch_early(finish_wide<Products>, (task.outputs() + kWideFinish - 1) / kWideFinish,
                      kWideFinish, 0, s, task, undecided);
}

}  // namespace etalon::cuda
