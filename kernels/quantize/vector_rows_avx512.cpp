#include <immintrin.h>

#include "kernels/quantize/vector_rows.h"
#include "kernels/simd/unroll.h"

namespace etalon {
namespace {

typedef std::int32_t Words __attribute__((vector_size(64)));

inline __m128i load_16(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
inline __m256i load_32(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline Words widen(const std::int8_t* p) { return (Words)_mm512_cvtepi8_epi32(load_16(p)); }
inline Words widen(const std::uint8_t* p) { return (Words)_mm512_cvtepu8_epi32(load_16(p)); }
inline Words widen(const std::int16_t* p) { return (Words)_mm512_cvtepi16_epi32(load_32(p)); }
inline Words widen(const std::uint16_t* p) { return (Words)_mm512_cvtepu16_epi32(load_32(p)); }
// The numbers are the type's: their lower bits are they.
template <class T>
inline void narrow(T* p, Words v) {
  if constexpr (sizeof(T) == 1)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8((__m512i)v));
  else
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm512_cvtepi32_epi16((__m512i)v));
}
template <class T>
inline void narrow_bytes(T* p, Words a, Words b, Words c, Words d) {
  // A part of 128 bits holds four numbers of each; the first of all parts are a's.
  const __m512i low = _mm512_packs_epi32((__m512i)a, (__m512i)b),
                high = _mm512_packs_epi32((__m512i)c, (__m512i)d),
                all = T(-1) < 0 ? _mm512_packs_epi16(low, high) : _mm512_packus_epi16(low, high),
                place = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  _mm512_storeu_si512(p, _mm512_permutexvar_epi32(place, all));
}
inline __m512 held(__m512 v, __m512 low, __m512 high) {
  return _mm512_min_ps(_mm512_maskz_max_ps(_mm512_cmp_ps_mask(v, v, _CMP_ORD_Q), v, low), high);
}
inline __m512 larger_size(__m512 a, __m512 v) { return _mm512_max_ps(_mm512_abs_ps(v), a); }
inline bool any_from_half(__m512 v) {
  return _mm512_cmp_ps_mask(v, _mm512_set1_ps(0.5F), _CMP_GE_OQ) != 0;
}

}  // namespace
}  // namespace etalon

#define ETALON_NARROW
#define ETALON_VECTOR_BYTES 64
#define ETALON_QUANTIZE quantize_row_avx512
#define ETALON_DEQUANTIZE dequantize_row_avx512
#define ETALON_CUT cut_row_avx512
#include "kernels/quantize/vector_rows.inc"
