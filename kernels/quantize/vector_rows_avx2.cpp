#include <immintrin.h>

#include "kernels/quantize/vector_rows.h"
#include "kernels/simd/unroll.h"

namespace etalon {
namespace {

typedef std::int32_t Words __attribute__((vector_size(32)));

inline __m128i load_8(const void* p) { return _mm_loadl_epi64(static_cast<const __m128i*>(p)); }
inline __m128i load_16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline Words widen(const std::int8_t* p) { return (Words)_mm256_cvtepi8_epi32(load_8(p)); }
inline Words widen(const std::uint8_t* p) { return (Words)_mm256_cvtepu8_epi32(load_8(p)); }
inline Words widen(const std::int16_t* p) { return (Words)_mm256_cvtepi16_epi32(load_16(p)); }
inline Words widen(const std::uint16_t* p) { return (Words)_mm256_cvtepu16_epi32(load_16(p)); }
// The numbers are the type's: what packs them holds them to it.
template <class T>
inline void narrow(T* p, Words v) {
  const __m256i all = (__m256i)v;
  const __m128i low = _mm256_castsi256_si128(all), high = _mm256_extracti128_si256(all, 1);
  constexpr bool kSigned = T(-1) < 0;
  const __m128i words =
      kSigned || sizeof(T) == 1 ? _mm_packs_epi32(low, high) : _mm_packus_epi32(low, high);
  if constexpr (sizeof(T) == 2)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), words);
  else
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p),
                     kSigned ? _mm_packs_epi16(words, words) : _mm_packus_epi16(words, words));
}
template <class T>
inline void narrow_bytes(T* p, Words a, Words b, Words c, Words d) {
  // A part of 128 bits holds four numbers of each; the first of both parts are a's.
  const __m256i low = _mm256_packs_epi32((__m256i)a, (__m256i)b),
                high = _mm256_packs_epi32((__m256i)c, (__m256i)d),
                all = T(-1) < 0 ? _mm256_packs_epi16(low, high) : _mm256_packus_epi16(low, high),
                place = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permutevar8x32_epi32(all, place));
}
inline __m256 held(__m256 v, __m256 low, __m256 high) {
  return _mm256_min_ps(_mm256_max_ps(_mm256_and_ps(_mm256_cmp_ps(v, v, _CMP_ORD_Q), v), low), high);
}
inline __m256 larger_size(__m256 a, __m256 v) {
  return _mm256_max_ps(_mm256_andnot_ps(_mm256_set1_ps(-0.0F), v), a);
}
inline bool any_from_half(__m256 v) {
  return _mm256_movemask_ps(_mm256_cmp_ps(v, _mm256_set1_ps(0.5F), _CMP_GE_OQ)) != 0;
}

}  // namespace
}  // namespace etalon

#define ETALON_NARROW
#define ETALON_VECTOR_BYTES 32
#define ETALON_QUANTIZE quantize_row_avx2
#define ETALON_DEQUANTIZE dequantize_row_avx2
#define ETALON_CUT cut_row_avx2
#include "kernels/quantize/vector_rows.inc"
