#include "kernels/conv/exact_depthwise_inl.h"
#include "kernels/gemm/exact_vector_avx2.h"

namespace etalon::avx2 {

void depthwise_exact(const DepthwiseCall& call) { simd::depthwise_exact<ExactF64>(call); }

// The largest but of NaN: a maximum gives its second operand where either is NaN.
float largest(const float* x, std::int64_t count) {
  const __m256 sign = _mm256_set1_ps(-0.0F);
  __m256 most[4] = {};
  std::int64_t i = 0;
  for (; i + 32 <= count; i += 32)
    simd::unroll<4>([&](auto j) ETALON_INLINE_LAMBDA {
      most[j] = _mm256_max_ps(_mm256_andnot_ps(sign, _mm256_loadu_ps(x + i + 8 * j)), most[j]);
    });
  for (; i < count; i += 8) {
    const auto left = static_cast<int>(count - i < 8 ? count - i : 8);
    most[0] = _mm256_max_ps(_mm256_andnot_ps(sign, F32::load(x + i, F32::first(left))), most[0]);
  }
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes,
                  _mm256_max_ps(_mm256_max_ps(most[0], most[1]), _mm256_max_ps(most[2], most[3])));
  float all = 0;
  for (const float lane : lanes) all = lane > all ? lane : all;
  return all;
}

}  // namespace etalon::avx2
