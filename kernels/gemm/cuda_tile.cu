// The launch of cuda_tile.h: a block's phases with barriers between them.
#include <cuda_runtime.h>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/tile_tasks.h"

namespace etalon::cuda {
namespace {

template <bool Fused, bool Masked>
__global__ void __launch_bounds__(kTileThreads) run_tile(const __grid_constant__ TileTask t) {
  using T = Tile<Fused, Masked>;
  __shared__ TileShared shared;
  TileThread r;
  const int tid = static_cast<int>(threadIdx.x);
  T::begin(t, r, tid, blockIdx.y, blockIdx.x);
  T::fetch(t, r, tid, 0);
  T::stash(shared, r, tid, 0);
  __syncthreads();
  int current = 0;
  for (std::int64_t k0 = 0; k0 < t.k; k0 += kTileK) {
    T::fetch(t, r, tid, k0 + kTileK);
    // Two calls, so that the loop over a whole slice is unrolled.
    if (t.k - k0 >= kTileK)
      T::multiply(shared, r, tid, current, kTileK);
    else
      T::multiply(shared, r, tid, current, static_cast<int>(t.k - k0));
    T::stash(shared, r, tid, 1 - current);
    __syncthreads();
    current = 1 - current;
  }
  T::store(t, r, tid);
}

}  // namespace

int launch_tiles(const KernelCall& call, void* stream) {
  const bool fused = call.contract().fma;
  for (const TileTask& t : tile_tasks(call, device_floats(call.output(0)))) {
    if (t.m * t.n == 0) continue;
    const dim3 grid(static_cast<unsigned>((t.n + kTileCols - 1) / kTileCols),
                    static_cast<unsigned>((t.m + kTileRows - 1) / kTileRows));
    const auto kernel = t.padded ? (fused ? run_tile<true, true> : run_tile<false, true>)
                                 : (fused ? run_tile<true, false> : run_tile<false, false>);
    kernel<<<grid, kTileThreads, 0, static_cast<cudaStream_t>(stream)>>>(t);
    if (const cudaError_t failed = cudaGetLastError(); failed != cudaSuccess) return failed;
  }
  return cudaSuccess;
}

}  // namespace etalon::cuda
