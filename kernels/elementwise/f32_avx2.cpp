#include <immintrin.h>

#include "kernels/elementwise/f32_rows.h"

namespace etalon {
namespace {

inline __m256 larger(__m256 a, __m256 b) { return _mm256_max_ps(a, b); }
inline __m256 smaller(__m256 a, __m256 b) { return _mm256_min_ps(a, b); }

}  // namespace
}  // namespace etalon

#define ETALON_EXTREMES
#define ETALON_VECTOR_BYTES 32
#define ETALON_ROW f32_row_avx2
#define ETALON_CLIP f32_clip_avx2
#include "kernels/elementwise/f32_rows.inc"
