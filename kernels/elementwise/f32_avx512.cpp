#include <immintrin.h>

#include "kernels/elementwise/f32_rows.h"

namespace etalon {
namespace {

inline __m512 larger(__m512 a, __m512 b) { return _mm512_max_ps(a, b); }
inline __m512 smaller(__m512 a, __m512 b) { return _mm512_min_ps(a, b); }

}  // namespace
}  // namespace etalon

#define ETALON_EXTREMES
#define ETALON_VECTOR_BYTES 64
#define ETALON_ROW f32_row_avx512
#define ETALON_CLIP f32_clip_avx512
#include "kernels/elementwise/f32_rows.inc"
