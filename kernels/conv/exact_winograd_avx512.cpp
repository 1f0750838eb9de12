#include "kernels/conv/exact_winograd_inl.h"
#include "kernels/gemm/exact_vector_avx512.h"

namespace etalon::avx512 {

const WinogradLanes& winograd_lanes() {
  static const WinogradLanes lanes = simd::make_winograd_lanes<ExactF64>();
  return lanes;
}

}  // namespace etalon::avx512
