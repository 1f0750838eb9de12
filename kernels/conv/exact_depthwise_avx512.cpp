#include "kernels/conv/exact_depthwise_inl.h"
#include "kernels/gemm/exact_vector_avx512.h"

namespace etalon::avx512 {

void depthwise_exact(const DepthwiseCall& call) { simd::depthwise_exact<ExactF64>(call); }

// The largest but of NaN: a maximum gives its second operand where either is NaN.
float largest(const float* x, std::int64_t count) {
  __m512 most[4] = {};
  std::int64_t i = 0;
  for (; i + 64 <= count; i += 64)
    simd::unroll<4>([&](auto j) ETALON_INLINE_LAMBDA {
      most[j] = _mm512_max_ps(_mm512_abs_ps(_mm512_loadu_ps(x + i + 16 * j)), most[j]);
    });
  for (; i < count; i += 16) {
    const auto left = static_cast<int>(count - i < 16 ? count - i : 16);
    most[0] = _mm512_max_ps(_mm512_abs_ps(F32::load(x + i, F32::first(left))), most[0]);
  }
  return _mm512_reduce_max_ps(
      _mm512_max_ps(_mm512_max_ps(most[0], most[1]), _mm512_max_ps(most[2], most[3])));
}

}  // namespace etalon::avx512
