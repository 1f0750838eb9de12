// The warps of a block, for text that device and host run (row_warp.h). Only nvcc includes this;
// the host's form stands in the tests.
#pragma once

#include "kernels/backends/cuda/row_warp.h"

namespace etalon::cuda {

// A thread's lane of its warp (row_warp.h).
struct BlockWarp {
  static constexpr int kLanes = 1;
  int index;
  __device__ int lane(int) const { return static_cast<int>(threadIdx.x % 32); }
  __device__ bool first() const { return threadIdx.x % 32 == 0; }
  __device__ void meet() const { __syncwarp(); }
  __device__ unsigned ballot(const bool (&b)[1]) const { return __ballot_sync(kAll, b[0]); }
  __device__ float largest(const float (&x)[1]) const {
    float m = x[0];
    for (int step = 16; step > 0; step /= 2) m = larger_of(m, __shfl_xor_sync(kAll, m, step));
    return m;
  }

 private:
  static constexpr unsigned kAll = 0xffffffffU;
};
struct BlockWarps {
  template <class F>
  __device__ void operator()(F&& phase) const {
    phase(BlockWarp{static_cast<int>(threadIdx.x / 32)});
    __syncthreads();
  }
};

}  // namespace etalon::cuda
