#include "kernels/gemm/exact_vector_avx2.h"
#include "kernels/resize/passes_inl.h"

namespace etalon::avx2 {
namespace {

struct Lanes : F32 {
  ETALON_INLINE static __m256i load_index(const std::int32_t* p, Mask m) {
    return _mm256_maskload_epi32(p, m);
  }
  ETALON_INLINE static Mask load_mask(const std::uint32_t* p, Mask m) {
    return _mm256_maskload_epi32(reinterpret_cast<const int*>(p), m);
  }
  ETALON_INLINE static Mask is_tap(__m256i index, Mask m) {
    return _mm256_andnot_si256(_mm256_srai_epi32(index, 31), m);
  }
  ETALON_INLINE static Reg gather(const float* from, __m256i index, Mask m) {
    return _mm256_mask_i32gather_ps(zero(), from, index, _mm256_castsi256_ps(m), 4);
  }
};

struct WideLanes : ExactF64 {
  // A mask of four 64-bit lanes as one of four 32-bit lanes.
  ETALON_INLINE static __m128i half(Mask m) {
    return _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(m, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
  }
  ETALON_INLINE static __m128i load_index(const std::int32_t* p, Mask m) {
    return _mm_maskload_epi32(p, half(m));
  }
  ETALON_INLINE static Mask load_mask(const std::uint32_t* p, Mask m) {
    return _mm256_cvtepi32_epi64(_mm_maskload_epi32(reinterpret_cast<const int*>(p), half(m)));
  }
  ETALON_INLINE static Mask is_tap(__m128i index, Mask m) {
    return _mm256_andnot_si256(_mm256_cvtepi32_epi64(_mm_srai_epi32(index, 31)), m);
  }
  ETALON_INLINE static Reg gather(const float* from, __m128i index, Mask m) {
    return _mm256_cvtps_pd(
        _mm_mask_i32gather_ps(_mm_setzero_ps(), from, index, _mm_castsi128_ps(half(m)), 4));
  }
};

ResizeRange range(const float* from, std::int64_t n) {
  const __m256i one = _mm256_set1_epi32(1), infinity = _mm256_set1_epi32(0x7f800000);
  __m256i most = _mm256_setzero_si256(), least = _mm256_set1_epi32(-1);
  for (std::int64_t i = 0; i < n; i += F32::lanes) {
    const __m256i m = F32::first(n - i < F32::lanes ? static_cast<int>(n - i) : F32::lanes);
    const __m256i size = _mm256_and_si256(_mm256_castps_si256(F32::load(from + i, m)),
                                          _mm256_set1_epi32(0x7fffffff));
    most = _mm256_max_epu32(most, _mm256_and_si256(size, _mm256_cmpgt_epi32(infinity, size)));
    least = _mm256_min_epu32(least, _mm256_sub_epi32(size, one));
  }
  alignas(32) std::uint32_t all_most[F32::lanes], all_least[F32::lanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(all_most), most);
  _mm256_store_si256(reinterpret_cast<__m256i*>(all_least), least);
  ResizeRange found;
  for (int i = 0; i < F32::lanes; ++i) {
    found.most = all_most[i] > found.most ? all_most[i] : found.most;
    found.least = all_least[i] < found.least ? all_least[i] : found.least;
  }
  return found;
}

}  // namespace

const ResizePasses resize_passes = simd::make_resize_passes<Lanes, WideLanes>(range);

}  // namespace etalon::avx2
