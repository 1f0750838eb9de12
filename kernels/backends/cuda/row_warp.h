// Text for a warp whose lanes work together, on device and host (kernels/softmax/cuda_rows.h):
// `Warp` has kLanes lanes in a thread, one on a device (block_warps.h) and all 32 on the host.
#pragma once

#include "engine/numerics/fp.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

// max, NaN where one is; which of two zeros is not said.
ETALON_HD inline float larger_of(float a, float b) {
#if defined(__CUDA_ARCH__)
  float m;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(m) : "f"(a), "f"(b));
  return m;
#else
  return a != a ? a : b != b ? b : a < b ? b : a;
#endif
}
}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
