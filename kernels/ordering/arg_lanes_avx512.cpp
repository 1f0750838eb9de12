#include "kernels/ordering/arg_lanes_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct Lanes : F32 {
  using Places = __m512i;
  ETALON_INLINE static Places places(int n) { return _mm512_set1_epi32(n); }
  ETALON_INLINE static Places count_up() {
    return _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  }
  ETALON_INLINE static Places plus(Places a, Places b) { return _mm512_add_epi32(a, b); }
  ETALON_INLINE static Places choose(Mask m, Places then, Places otherwise) {
    return _mm512_mask_blend_epi32(m, otherwise, then);
  }
  ETALON_INLINE static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  ETALON_INLINE static void store_places(std::int64_t* to, Places v, int n) {
    const __m512i low = _mm512_cvtepi32_epi64(_mm512_castsi512_si256(v)),
                  high = _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(v, 1));
    const auto lanes = static_cast<std::uint32_t>(first(n));
    _mm512_mask_storeu_epi64(to, static_cast<__mmask8>(lanes), low);
    _mm512_mask_storeu_epi64(to + 8, static_cast<__mmask8>(lanes >> 8), high);
  }
  ETALON_INLINE static void store_all(std::int32_t* to, Places v) { _mm512_storeu_si512(to, v); }
  // Larger (smaller), or NaN beside a number; of equals, NaN among them, the later where kLast.
  template <bool kLargest, bool kLast>
  ETALON_INLINE static Mask beats(Reg x, Reg best) {
    constexpr int kCompare =
        kLargest ? (kLast ? _CMP_NLT_UQ : _CMP_NLE_UQ) : (kLast ? _CMP_NGT_UQ : _CMP_NGE_UQ);
    const Mask number = _mm512_cmp_ps_mask(best, best, _CMP_ORD_Q);
    if constexpr (kLast)
      return static_cast<Mask>(_mm512_cmp_ps_mask(x, best, kCompare) & (number | is_nan(x)));
    else
      return _mm512_mask_cmp_ps_mask(number, x, best, kCompare);
  }
};

}  // namespace

const ArgLanes& arg_lanes(bool largest, bool last) {
  return simd::arg_lanes_of<Lanes>(largest, last);
}

}  // namespace etalon::avx512
