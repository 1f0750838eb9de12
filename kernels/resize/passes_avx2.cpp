#include "kernels/resize/passes_inl.h"
#include "kernels/simd/avx2.h"

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

}  // namespace

const ResizePasses resize_passes = {simd::resize_along<Lanes>, simd::resize_across<Lanes>};

}  // namespace etalon::avx2
