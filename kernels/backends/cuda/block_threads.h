// A phase of a block, for a kernel's text that both device and host run: all threads take their
// part of it, and none begins the next before the last has ended. Only nvcc includes this; the
// host's form stands in the tests.
#pragma once

namespace etalon::cuda {

struct BlockThreads {
  template <class F>
  __device__ void operator()(F&& phase) const {
    phase(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
};

}  // namespace etalon::cuda
