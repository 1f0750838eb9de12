#include "kernels/gemm/exact_lanes_inl.h"
#include "kernels/gemm/exact_vector_avx512.h"

namespace etalon::avx512 {
const ExactLanes& exact_lanes() {
  static const ExactLanes lanes = simd::make_exact_lanes<ExactF64>();
  return lanes;
}

}  // namespace etalon::avx512
