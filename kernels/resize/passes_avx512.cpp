#include "kernels/resize/passes_inl.h"
#include "kernels/simd/avx512.h"

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

}  // namespace

const ResizePasses resize_passes = {simd::resize_along<Lanes>, simd::resize_across<Lanes>};

}  // namespace etalon::avx512
