#include "kernels/elementwise/steps_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part) {
  simd::run_steps<F32>(steps, y, part);
}

}  // namespace etalon::avx2
