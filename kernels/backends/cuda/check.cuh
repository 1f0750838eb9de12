#pragma once

#include <cuda_runtime.h>

#include "kernels/backends/cuda/status.h"

namespace etalon::cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    require_success(static_cast<int>(status), call, cudaGetErrorString(status));
}

}  // namespace etalon::cuda
