#include "kernels/ordering/arg_lanes_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct Lanes : F32 {
  using Places = __m256i;
  ETALON_INLINE static Places places(int n) { return _mm256_set1_epi32(n); }
  ETALON_INLINE static Places count_up() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  ETALON_INLINE static Places plus(Places a, Places b) { return _mm256_add_epi32(a, b); }
  ETALON_INLINE static Places choose(Mask m, Places then, Places otherwise) {
    return _mm256_blendv_epi8(otherwise, then, m);
  }
  ETALON_INLINE static Mask both(Mask a, Mask b) { return _mm256_and_si256(a, b); }
  ETALON_INLINE static void store_places(std::int64_t* to, Places v, int n) {
    alignas(32) std::int32_t all[lanes];
    if (n < lanes) {
      store_all(all, v);
      for (int i = 0; i < n; ++i) to[i] = all[i];
      return;
    }
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm256_cvtepi32_epi64(_mm256_castsi256_si128(v)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 4),
                        _mm256_cvtepi32_epi64(_mm256_extracti128_si256(v, 1)));
  }
  ETALON_INLINE static void store_all(std::int32_t* to, Places v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
  }
  // Larger (smaller), or NaN beside a number; of equals, NaN among them, the later where kLast.
  template <bool kLargest, bool kLast>
  ETALON_INLINE static Mask beats(Reg x, Reg best) {
    constexpr int kCompare =
        kLargest ? (kLast ? _CMP_NLT_UQ : _CMP_NLE_UQ) : (kLast ? _CMP_NGT_UQ : _CMP_NGE_UQ);
    __m256 allowed = _mm256_cmp_ps(best, best, _CMP_ORD_Q);
    if constexpr (kLast) allowed = _mm256_or_ps(allowed, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    return _mm256_castps_si256(_mm256_and_ps(allowed, _mm256_cmp_ps(x, best, kCompare)));
  }
};

}  // namespace

const ArgLanes& arg_lanes(bool largest, bool last) {
  return simd::arg_lanes_of<Lanes>(largest, last);
}

}  // namespace etalon::avx2
