// The launch of cuda_tile.h: a block's phases with barriers between them.
#include <cuda_runtime.h>

#include "kernels/backends/cuda/device.h"
#include "kernels/backends/cuda/launches.h"
#include "kernels/backends/cuda/tile_tasks.h"

namespace etalon::cuda {
namespace {

// Two blocks of an SM hide each other's barriers: 128 registers a thread. A convolution's addresses
// need more, which one block has.
template <bool Fused, bool Conv>
__global__ void __launch_bounds__(kTileThreads, Conv ? 1 : 2)
    run_tile(const __grid_constant__ TileTask t) {
  using T = Tile<Fused, Conv>;
  __shared__ TileShared shared;
  TileThread r;
  const int tid = static_cast<int>(threadIdx.x);
  T::begin(t, shared, r, tid, blockIdx.x);
  if constexpr (Conv) __syncthreads();  // the taps' places are there
  T::fetch(t, shared, r, tid, 0);
  T::stash(shared, r, tid, 0);
  __syncthreads();
  int current = 0;
  std::int64_t k0 = 0;
  for (; k0 + kTileK <= t.k; k0 += kTileK) {
    T::fetch(t, shared, r, tid, k0 + kTileK);
    T::multiply(shared, r, tid, current, kTileK);
    T::stash(shared, r, tid, 1 - current);
    __syncthreads();
    current = 1 - current;
  }
  if (k0 < t.k) T::multiply(shared, r, tid, current, static_cast<int>(t.k - k0));
  T::store(t, r, tid);
}

}  // namespace

int launch_tiles(const KernelCall& call, void* stream) {
  const TileTask t = tile_task(call, device_floats(call.output(0)));
  if (t.blocks() == 0) return cudaSuccess;
  const bool fused = call.contract().fma, conv = call.problem->op->name == "conv";
  const auto kernel = conv ? (fused ? run_tile<true, true> : run_tile<false, true>)
                           : (fused ? run_tile<true, false> : run_tile<false, false>);
  kernel<<<static_cast<unsigned>(t.blocks()), kTileThreads, 0, static_cast<cudaStream_t>(stream)>>>(
      t);
  return cudaGetLastError();
}

}  // namespace etalon::cuda
