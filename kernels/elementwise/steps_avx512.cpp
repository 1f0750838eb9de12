#include "kernels/elementwise/steps_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct Steps : F32 {
  // NaN canonical, what is above 0 as it is, the rest +0.
  ETALON_INLINE static Reg relu(Reg v) {
    // What becomes of a class of values, four bits each from the least: NaN (both kinds) the
    // table's first operand; zero +0; one, +inf and positive v; -inf and negative +0.
    constexpr int kTable = 0x18181800;
    const __m512i table = _mm512_set1_epi32(kTable);
    return _mm512_fixupimm_ps(_mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)), v, table, 0);
  }
};

}  // namespace

void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part) {
  simd::run_steps<Steps>(steps, y, part);
}

}  // namespace etalon::avx512
