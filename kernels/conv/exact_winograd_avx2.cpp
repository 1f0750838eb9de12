#include "kernels/conv/exact_winograd_inl.h"
#include "kernels/gemm/exact_vector_avx2.h"

namespace etalon::avx2 {

const WinogradLanes& winograd_lanes() {
  static const WinogradLanes lanes = simd::make_winograd_lanes<ExactF64>();
  return lanes;
}

}  // namespace etalon::avx2
