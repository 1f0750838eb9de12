#include "kernels/gemm/exact_vector_avx512.h"
#include "kernels/normalization/exact_lanes_inl.h"

namespace etalon::avx512 {
namespace {

struct Lanes : ExactF64 {
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm512_sqrt_pd(v); }
};

}  // namespace

const ExactNormLanes& exact_norm_lanes() {
  static const ExactNormLanes lanes = simd::make_exact_norm_lanes<Lanes>();
  return lanes;
}

}  // namespace etalon::avx512
