#include "kernels/gemm/exact_vector_avx512.h"
#include "kernels/resize/passes_inl.h"

namespace etalon::avx512 {
namespace {

struct Lanes : F32 {
  ETALON_INLINE static __m512i load_index(const std::int32_t* p, Mask m) {
    return _mm512_maskz_loadu_epi32(m, p);
  }
  ETALON_INLINE static Mask load_mask(const std::uint32_t* p, Mask m) {
    return _mm512_movepi32_mask(_mm512_maskz_loadu_epi32(m, p));
  }
  ETALON_INLINE static Mask is_tap(__m512i index, Mask m) {
    return static_cast<Mask>(m & ~_mm512_movepi32_mask(index));
  }
  ETALON_INLINE static Reg gather(const float* from, __m512i index, Mask m) {
    return _mm512_mask_i32gather_ps(zero(), m, index, from, 4);
  }
};

struct WideLanes : ExactF64 {
  ETALON_INLINE static __m256i load_index(const std::int32_t* p, Mask m) {
    return _mm256_maskz_loadu_epi32(m, p);
  }
  ETALON_INLINE static Mask load_mask(const std::uint32_t* p, Mask m) {
    return _mm256_movepi32_mask(_mm256_maskz_loadu_epi32(m, p));
  }
  ETALON_INLINE static Mask is_tap(__m256i index, Mask m) {
    return static_cast<Mask>(m & ~_mm256_movepi32_mask(index));
  }
  ETALON_INLINE static Reg gather(const float* from, __m256i index, Mask m) {
    return _mm512_cvtps_pd(_mm256_mmask_i32gather_ps(_mm256_setzero_ps(), m, index, from, 4));
  }
};

ResizeRange range(const float* from, std::int64_t n) {
  const __m512i one = _mm512_set1_epi32(1), infinity = _mm512_set1_epi32(0x7f800000);
  __m512i most = _mm512_setzero_si512(), least = _mm512_set1_epi32(-1);
  for (std::int64_t i = 0; i < n; i += F32::lanes) {
    const __mmask16 m = F32::first(n - i < F32::lanes ? static_cast<int>(n - i) : F32::lanes);
    const __m512i size = _mm512_castps_si512(_mm512_abs_ps(F32::load(from + i, m)));
    most = _mm512_mask_max_epu32(most, _mm512_cmplt_epu32_mask(size, infinity), most, size);
    least = _mm512_min_epu32(least, _mm512_sub_epi32(size, one));
  }
  return {_mm512_reduce_max_epu32(most), _mm512_reduce_min_epu32(least)};
}

}  // namespace

const ResizePasses resize_passes = simd::make_resize_passes<Lanes, WideLanes>(range);

}  // namespace etalon::avx512
