// The launch of cuda_tile.h.
#include <cuda_runtime.h>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/gemm/cuda_tile_choice.h"

namespace etalon::cuda {
namespace {

template <class T>
struct BlockThreads {
  typename T::Thread& r;
  template <class F>
  __device__ void phase(F&& f) const {
    f(r, static_cast<int>(threadIdx.x));
  }
  __device__ void together() const { __syncthreads(); }
  __device__ void arrived() const {
    wait_for_copies<T::Shape::kStages - 2>();
    __syncthreads();
  }
};

template <class T>
__global__ void __launch_bounds__(T::Shape::kThreads, T::Shape::kResident)
    run_tile(const __grid_constant__ TileTask t) {
  extern __shared__ __align__(16) unsigned char memory[];
  typename T::Thread r;
  T::run(t, blockIdx.x, *reinterpret_cast<typename T::Shared*>(memory), BlockThreads<T>{r});
}

int processors() {
  static const int count = [] {
    int device = 0, n = 0;
    if (cudaGetDevice(&device) != cudaSuccess ||
        cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
      return 108;
    return n;
  }();
  return count;
}

int launch(const TileChoice& c, void* stream) {
  return with_tile(c, [&]<class T>() -> int {
    using S = typename T::Shape;
    const std::int64_t blocks = T::blocks(c.t);
    if (blocks == 0) return cudaSuccess;
    const auto kernel = run_tile<T>;
    constexpr int kBytes = static_cast<int>(sizeof(typename T::Shared));
    if constexpr (kBytes > 48 << 10)
      if (const cudaError_t code =
              cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
          code != cudaSuccess)
        return code;
    kernel<<<static_cast<unsigned>(blocks), S::kThreads, kBytes,
             static_cast<cudaStream_t>(stream)>>>(c.t);
    return cudaGetLastError();
  });
}

}  // namespace

int launch_products(const TileTask& t, void* stream) {
  return launch(tile_choice(t, false, true, processors()), stream);
}

int launch_tiles(const KernelCall& call, void* stream) {
  return launch(tile_choice(tile_task(call, device_floats(call.output(0))),
                            call.problem->op->name == "conv", call.contract().fma, processors()),
                stream);
}

}  // namespace etalon::cuda
