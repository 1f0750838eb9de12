// Chains of kernels/gemm/order.h for AVX2: f32 and f64. Without rounding by instruction the narrow
// accumulators would be little faster than the definition.
#include "kernels/gemm/order_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct OrderF32 : F32 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm256_blendv_ps(c, _mm256_add_ps(c, x), _mm256_castsi256_ps(m));
  }
  ETALON_INLINE static Reg gather(const float* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), from,
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)),
                                    _mm256_castsi256_ps(from_bits(mask)), 4);
  }
};

struct OrderF64 : F64 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm256_blendv_pd(c, _mm256_add_pd(c, x), _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Reg gather(const double* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm256_mask_i32gather_pd(_mm256_setzero_pd(), from,
                                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(offset)),
                                    _mm256_castsi256_pd(from_bits(mask)), 8);
  }
};

template <class N>
const OrderTiles<typename N::Scalar>& tiles() {
  static const OrderTiles<typename N::Scalar> made = simd::make_order_tiles<N>();
  return made;
}

}  // namespace

const OrderTiles<float>& order_f32(bool fma) {
  return fma ? tiles<simd::PlainArithmetic<OrderF32, true>>()
             : tiles<simd::PlainArithmetic<OrderF32, false>>();
}
const OrderTiles<double>& order_f64(bool fma) {
  return fma ? tiles<simd::PlainArithmetic<OrderF64, true>>()
             : tiles<simd::PlainArithmetic<OrderF64, false>>();
}

}  // namespace etalon::avx2
