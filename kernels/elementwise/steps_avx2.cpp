#include "kernels/elementwise/steps_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct Steps : F32 {
  // NaN canonical, what is above 0 as it is, the rest +0.
  ETALON_INLINE static Reg relu(Reg v) { return clear_negative(canonical(v)); }
};

}  // namespace

void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part) {
  simd::run_steps<Steps>(steps, y, part);
}

}  // namespace etalon::avx2
