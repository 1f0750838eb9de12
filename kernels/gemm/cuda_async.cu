// The launch of cuda_async.h.
#include <cuda_runtime.h>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/tile_tasks.h"
#include "kernels/gemm/cuda_async.h"

namespace etalon::cuda {
namespace {

struct BlockThreads {
  AsyncThread& r;
  template <class F>
  __device__ void phase(F&& f) const {
    f(r, static_cast<int>(threadIdx.x));
  }
  __device__ void arrived() const {
    wait_for_copies<kAsyncStages - 2>();
    __syncthreads();
  }
};

// Two blocks of an SM hide each other's barriers: 128 registers a thread.
template <bool Fused>
__global__ void __launch_bounds__(kTileThreads, 2)
    run_async_tile(const __grid_constant__ TileTask t) {
  __shared__ AsyncShared shared;
  AsyncThread r;
  AsyncTile<Fused>::run(t, blockIdx.x, shared, BlockThreads{r});
}

}  // namespace

int launch_async_tiles(const KernelCall& call, void* stream) {
  const TileTask t = tile_task(call, device_floats(call.output(0)));
  if (t.blocks() == 0) return cudaSuccess;
  const auto kernel = call.contract().fma ? run_async_tile<true> : run_async_tile<false>;
  kernel<<<static_cast<unsigned>(t.blocks()), kTileThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      t);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
