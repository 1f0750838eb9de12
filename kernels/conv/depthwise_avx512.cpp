// The loops over windows for avx512.
#include <immintrin.h>

#include "kernels/conv/depthwise_inl.h"
#include "kernels/conv/tap_rows_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

// Half vectors with masks of AVX-512, for rows that fill no more.
struct Half {
  using Reg = __m256;
  using Mask = __mmask8;
  static constexpr int lanes = 8;
  ETALON_INLINE static Reg zero() { return _mm256_setzero_ps(); }
  ETALON_INLINE static Reg set1(float v) { return _mm256_set1_ps(v); }
  ETALON_INLINE static Mask from_bits(std::uint32_t bits) { return static_cast<Mask>(bits); }
  ETALON_INLINE static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  ETALON_INLINE static Reg load(const float* p, Mask m) { return _mm256_maskz_loadu_ps(m, p); }
  ETALON_INLINE static void store(float* p, Reg v) { _mm256_storeu_ps(p, v); }
  ETALON_INLINE static void store(float* p, Reg v, Mask m) { _mm256_mask_storeu_ps(p, m, v); }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return _mm256_mask3_fmadd_ps(a, b, c, m);
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm256_mask_blend_ps(m, otherwise, then);
  }
  ETALON_INLINE static Reg even(Reg a, Reg b) {
    return _mm256_permutex2var_ps(a, _mm256_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14), b);
  }
  ETALON_INLINE static Reg odd(Reg a, Reg b) {
    return _mm256_permutex2var_ps(a, _mm256_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15), b);
  }
  ETALON_INLINE static Reg next_lane(Reg v) {
    const __m256i i = _mm256_castps_si256(v);
    return _mm256_castsi256_ps(_mm256_alignr_epi32(i, i, 1));
  }
  ETALON_INLINE static Reg canonical(Reg v) {
    return _mm256_mask_blend_ps(_mm256_cmp_ps_mask(v, v, _CMP_UNORD_Q), v,
                                _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)));
  }
  // As F32's.
  ETALON_INLINE static Reg relu(Reg v) {
    return _mm256_fixupimm_ps(_mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), v,
                              _mm256_set1_epi32(0x18181800), 0);
  }
};

struct Whole : F32 {
  // Lane i + 1 in lane i.
  ETALON_INLINE static Reg next_lane(Reg v) {
    const __m512i i = _mm512_castps_si512(v);
    return _mm512_castsi512_ps(_mm512_alignr_epi32(i, i, 1));
  }
};

}  // namespace

void depthwise(const DepthwiseCall& call) {
  simd::window_channel<F32, simd::WeightedSum<F32>>(call);
}
void max_pool(const DepthwiseCall& call) { simd::window_channel<F32, simd::Maximum<F32>>(call); }
void average_pool(const DepthwiseCall& call) {
  simd::window_channel<F32, simd::Average<F32>>(call);
}
void tap_rows_sum(const TapRowsCall& call) {
  if (call.narrow) return simd::tap_rows<Half, simd::TapSum<Half>>(call);
  simd::tap_rows<Whole, simd::TapSum<Whole>>(call);
}
void tap_rows_average(const TapRowsCall& call) {
  if (call.narrow) return simd::tap_rows<Half, simd::TapAverage<Half>>(call);
  simd::tap_rows<Whole, simd::TapAverage<Whole>>(call);
}
void split_pairs(const PairRows& rows) { simd::split_pairs_of<F32>(rows); }

}  // namespace etalon::avx512
