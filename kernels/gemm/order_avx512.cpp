// Chains of kernels/gemm/order.h for AVX-512.
//
// Rounding to odd: a sum rounded down and rounded up; of these neighbours the one with an odd last
// bit (where both are equal it is exact, and either will do). x - x is -0 rounded down and +0
// rounded up; the choice of the even one's partner gives +0, as it must be.
#include "kernels/gemm/order_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct OrderF32 : F32 {
  ETALON_INLINE static Reg raw(const float* p) { return load(p); }
  // What it holds was flushed.
  template <bool Flush>
  ETALON_INLINE static void out(float* p, Reg v) {
    store(p, canonical(v));
  }
  ETALON_INLINE static Reg add_zero(Reg v) { return _mm512_add_ps(v, zero()); }  // exact
  ETALON_INLINE static Reg abs(Reg v) { return _mm512_abs_ps(v); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm512_sqrt_ps(v); }
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm512_mask_add_ps(c, m, c, x);
  }
  // On the bits, whatever the processor makes of subnormal operands.
  ETALON_INLINE static Reg flush_f32(Reg v) {
    const Mask small =
        _mm512_testn_epi32_mask(_mm512_castps_si512(v), _mm512_set1_epi32(0x7f800000));
    return _mm512_mask_and_ps(v, small, v, _mm512_set1_ps(-0.0F));
  }
  ETALON_INLINE static Reg flush(Reg v) { return flush_f32(v); }
  ETALON_INLINE static Reg gather(const float* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), static_cast<Mask>(mask),
                                    _mm512_loadu_si512(offset), from, 4);
  }
};

struct OrderF64 : F64 {
  ETALON_INLINE static Reg raw(const float* p) { return widen(p); }
  template <bool Flush>
  ETALON_INLINE static void out(float* p, Reg v) {
    __m512 single = F32::canonical(_mm512_zextps256_ps512(_mm512_cvtpd_ps(v)));
    if constexpr (Flush) single = OrderF32::flush_f32(single);
    _mm256_storeu_ps(p, _mm512_castps512_ps256(single));
  }
  ETALON_INLINE static Reg add_zero(Reg v) { return _mm512_add_pd(v, zero()); }  // exact
  ETALON_INLINE static Reg max_keep(Reg best, Reg x) {
    const Mask ordered = _mm512_cmp_pd_mask(best, best, _CMP_ORD_Q);
    return _mm512_mask_blend_pd(_mm512_mask_cmp_pd_mask(ordered, x, best, _CMP_NLE_UQ), best, x);
  }
  ETALON_INLINE static Reg abs(Reg v) { return _mm512_abs_pd(v); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm512_sqrt_pd(v); }
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm512_mask_add_pd(c, m, c, x);
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm512_mask_blend_pd(m, otherwise, then);
  }
  ETALON_INLINE static Reg flush(Reg v) {
    const Mask small =
        _mm512_testn_epi64_mask(_mm512_castpd_si512(v), _mm512_set1_epi64(0x7ff0000000000000));
    return _mm512_mask_and_pd(v, small, v, _mm512_set1_pd(-0.0));
  }
  ETALON_INLINE static Reg flush_f32(Reg v) {
    const Mask small = _mm512_cmp_pd_mask(_mm512_abs_pd(v), _mm512_set1_pd(0x1p-126), _CMP_LT_OQ);
    return _mm512_mask_and_pd(v, small, v, _mm512_set1_pd(-0.0));
  }
  ETALON_INLINE static Reg gather(const double* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), static_cast<Mask>(mask),
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)),
                                    from, 8);
  }
};

template <OrderRounding Rounding>
struct Half : OrderF32 {
  ETALON_INLINE static Reg power(Reg x) {
    return _mm512_and_ps(x, _mm512_castsi512_ps(_mm512_set1_epi32(0x7f800000)));
  }
  // As unsigned numbers.
  ETALON_INLINE static Reg larger_bits(Reg a, Reg b) {
    return _mm512_castsi512_ps(_mm512_max_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  ETALON_INLINE static Reg smaller_bits(Reg a, Reg b) {
    return _mm512_castsi512_ps(_mm512_min_epu32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  // The number of bits less one.
  ETALON_INLINE static Reg bits_before(Reg x) {
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(x), _mm512_set1_epi32(-1)));
  }
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm512_fnmadd_ps(a, b, c); }
  // x, or a NaN where m, as a number of bits, is above most; of bf16 one of bf16.
  ETALON_INLINE static Reg nan_above(Reg x, Reg m, Reg most) {
    const Mask above = _mm512_cmpgt_epi32_mask(_mm512_castps_si512(m), _mm512_castps_si512(most));
    return _mm512_mask_blend_ps(above, x, _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  }
  // The number without its last bits, rounded to nearest, ties to even.
  template <int Bits>
  ETALON_INLINE static Reg round_bits(Reg v) {
    const __m512i x = _mm512_castps_si512(v);
    const __mmask16 odd = _mm512_test_epi32_mask(x, _mm512_set1_epi32(1 << Bits));
    const __m512i half = _mm512_add_epi32(x, _mm512_set1_epi32((1 << (Bits - 1)) - 1));
    const __m512i sum = _mm512_mask_add_epi32(half, odd, half, _mm512_set1_epi32(1));
    return _mm512_castsi512_ps(_mm512_and_si512(sum, _mm512_set1_epi32(-(1 << Bits))));
  }
  ETALON_INLINE static Reg fma_odd(Reg a, Reg b, Reg c) {
    if constexpr (Rounding == OrderRounding::nearest) {
      const Reg down = _mm512_fmadd_round_ps(a, b, c, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
      const Reg up = _mm512_fmadd_round_ps(a, b, c, _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC);
      const Mask odd = _mm512_test_epi32_mask(_mm512_castps_si512(down), _mm512_set1_epi32(1));
      return _mm512_mask_blend_ps(odd, up, down);
    } else {
      return fma(a, b, c);
    }
  }
};

template <OrderRounding Rounding>
struct RoundF16 : Half<Rounding> {
  static constexpr bool kLikeF32 = false;
  static constexpr float kLeastNormal = 0x1p-14F, kQuickFactor = 0x1.8p13F, kQuickScale = 0x1p100F;
  using Reg = __m512;
  ETALON_INLINE static Reg narrow(Reg x) {
    constexpr int kMode =
        Rounding == OrderRounding::nearest ? _MM_FROUND_TO_NEAREST_INT : _MM_FROUND_CUR_DIRECTION;
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, kMode | _MM_FROUND_NO_EXC));
  }
  ETALON_INLINE static Reg flush(Reg v) {
    const __mmask16 small =
        _mm512_cmp_ps_mask(_mm512_abs_ps(v), _mm512_set1_ps(0x1p-14F), _CMP_LT_OQ);
    return _mm512_mask_and_ps(v, small, v, _mm512_set1_ps(-0.0F));
  }
  ETALON_INLINE static Reg flush_in_mode(Reg v) { return flush(v); }
};

// On the bits: a carry into the exponent is the right result too. NaNs here are 7fc00000 or
// ffc00000 and stay what they are.
template <OrderRounding Rounding>
struct RoundBF16 : Half<Rounding> {
  static constexpr bool kLikeF32 = true;
  static constexpr float kLeastNormal = 0x1p-126F, kQuickFactor = 0x1.8p16F, kQuickScale = 1;
  using Reg = __m512;
  ETALON_INLINE static Reg narrow(Reg v) {
    const __m512i x = _mm512_castps_si512(v);
    if constexpr (Rounding == OrderRounding::zero) {
      return upper(x);
    } else if constexpr (Rounding == OrderRounding::nearest) {
      return Half<Rounding>::template round_bits<16>(v);
    } else {
      const __mmask16 negative = _mm512_movepi32_mask(x);
      const __mmask16 away = Rounding == OrderRounding::down
                                 ? negative
                                 : static_cast<__mmask16>(_mm512_knot(negative));
      return upper(_mm512_mask_add_epi32(x, away, x, _mm512_set1_epi32(0xffff)));
    }
  }

 private:
  ETALON_INLINE static Reg upper(__m512i x) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
};

// Toward one side the processor knows which.
template <OrderRounding Rounding>
using RoundAnyF16 = RoundF16<Rounding == OrderRounding::nearest ? Rounding : OrderRounding::zero>;

using Arithmetics =
    simd::OrderArithmetics<OrderF32, OrderF64, RoundAnyF16, RoundBF16, OrderRounding::nearest>;

}  // namespace

const OrderTiles<float>& order_f32(const OrderArithmetic& a) { return Arithmetics::in_f32(a); }
const OrderTiles<double>& order_f64(const OrderArithmetic& a) { return Arithmetics::in_f64(a); }

}  // namespace etalon::avx512
