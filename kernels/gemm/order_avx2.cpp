// Chains of kernels/gemm/order.h for AVX2.
//
// Rounding to odd, with the processor rounding toward zero: t = fma(a, b, c) loses nothing or less
// than its last bit, which is set where t - a b, one fma, is not c. If t is exact, that is c. If
// not, t - a b = c - e, e of the sign of the sum and below one bit of t. Where the sum has c's
// sign, c - e is smaller than c and rounded toward zero stays so. Where it has not, |a b| > |c|,
// and a b has 2q bits, c has q: both, so t and e too, are multiples of 2^(x - 21), x the exponent
// of c; so c - e is that far from c at least, more than the bit of c that rounding drops. (Products
// below 2^-134 that f32 does not hold are rounded to zero beside c = 0, odd or not.) Infinities
// give NaN or c.
#include "kernels/gemm/order_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct OrderF32 : F32 {
  ETALON_INLINE static Reg raw(const float* p) { return load(p); }
  // What it holds was flushed.
  template <bool Flush>
  ETALON_INLINE static void out(float* p, Reg v) {
    store(p, canonical(v));
  }
  ETALON_INLINE static Reg add_zero(Reg v) { return _mm256_add_ps(v, zero()); }  // exact
  ETALON_INLINE static Reg abs(Reg v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), v); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm256_sqrt_ps(v); }
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm256_blendv_ps(c, _mm256_add_ps(c, x), _mm256_castsi256_ps(m));
  }
  // Below `least` the sign alone is left.
  ETALON_INLINE static Reg flush_below(Reg v, float least) {
    const Reg sign = _mm256_set1_ps(-0.0F);
    const Reg kept = _mm256_cmp_ps(_mm256_andnot_ps(sign, v), _mm256_set1_ps(least), _CMP_NLT_UQ);
    return _mm256_and_ps(v, _mm256_or_ps(kept, sign));
  }
  ETALON_INLINE static Reg flush_f32(Reg v) { return flush_below(v, 0x1p-126F); }
  ETALON_INLINE static Reg flush(Reg v) { return flush_f32(v); }
  ETALON_INLINE static Reg gather(const float* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), from,
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)),
                                    _mm256_castsi256_ps(from_bits(mask)), 4);
  }
};

struct OrderF64 : F64 {
  ETALON_INLINE static Reg raw(const float* p) { return widen(p); }
  template <bool Flush>
  ETALON_INLINE static void out(float* p, Reg v) {
    __m256 single = F32::canonical(_mm256_zextps128_ps256(_mm256_cvtpd_ps(v)));
    if constexpr (Flush) single = OrderF32::flush_f32(single);
    _mm_storeu_ps(p, _mm256_castps256_ps128(single));
  }
  ETALON_INLINE static Reg add_zero(Reg v) { return _mm256_add_pd(v, zero()); }  // exact
  ETALON_INLINE static Reg max_keep(Reg best, Reg x) {
    const Reg ordered = _mm256_cmp_pd(best, best, _CMP_ORD_Q);
    return _mm256_blendv_pd(best, x, _mm256_and_pd(ordered, _mm256_cmp_pd(x, best, _CMP_NLE_UQ)));
  }
  ETALON_INLINE static Reg abs(Reg v) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), v); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  ETALON_INLINE static Reg sqrt(Reg v) { return _mm256_sqrt_pd(v); }
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm256_blendv_pd(c, _mm256_add_pd(c, x), _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm256_blendv_pd(otherwise, then, _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Reg flush_below(Reg v, double least) {
    const Reg sign = _mm256_set1_pd(-0.0);
    const Reg kept = _mm256_cmp_pd(_mm256_andnot_pd(sign, v), _mm256_set1_pd(least), _CMP_NLT_UQ);
    return _mm256_and_pd(v, _mm256_or_pd(kept, sign));
  }
  ETALON_INLINE static Reg flush(Reg v) { return flush_below(v, 0x1p-1022); }
  ETALON_INLINE static Reg flush_f32(Reg v) { return flush_below(v, 0x1p-126); }
  ETALON_INLINE static Reg gather(const double* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm256_mask_i32gather_pd(_mm256_setzero_pd(), from,
                                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(offset)),
                                    _mm256_castsi256_pd(from_bits(mask)), 8);
  }
};

template <OrderRounding Rounding>
struct Half : OrderF32 {
  ETALON_INLINE static Reg power(Reg x) {
    return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000)));
  }
  // As unsigned numbers.
  ETALON_INLINE static Reg larger_bits(Reg a, Reg b) {
    return _mm256_castsi256_ps(_mm256_max_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  ETALON_INLINE static Reg smaller_bits(Reg a, Reg b) {
    return _mm256_castsi256_ps(_mm256_min_epu32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  // The number of bits less one.
  ETALON_INLINE static Reg bits_before(Reg x) {
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(x), _mm256_set1_epi32(-1)));
  }
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm256_fnmadd_ps(a, b, c); }
  // x, or a NaN where m, as a number of bits, is above most; of bf16 one of bf16.
  ETALON_INLINE static Reg nan_above(Reg x, Reg m, Reg most) {
    const __m256i above = _mm256_cmpgt_epi32(_mm256_castps_si256(m), _mm256_castps_si256(most));
    return _mm256_or_ps(
        x, _mm256_castsi256_ps(_mm256_and_si256(above, _mm256_set1_epi32(0x7fc00000))));
  }
  // The number without its last bits, rounded to nearest, ties to even.
  template <int Bits>
  ETALON_INLINE static Reg round_bits(Reg v) {
    const __m256i x = _mm256_castps_si256(v);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, Bits), _mm256_set1_epi32(1));
    const __m256i half = _mm256_add_epi32(x, _mm256_set1_epi32((1 << (Bits - 1)) - 1));
    return _mm256_castsi256_ps(
        _mm256_and_si256(_mm256_add_epi32(half, odd), _mm256_set1_epi32(-(1 << Bits))));
  }
  ETALON_INLINE static Reg fma_odd(Reg a, Reg b, Reg c) {
    const Reg t = fma(a, b, c);
    if constexpr (Rounding != OrderRounding::nearest) return t;
    const Reg lost = _mm256_cmp_ps(_mm256_fnmadd_ps(a, b, t), c, _CMP_NEQ_OQ);
    const Reg bit = _mm256_castsi256_ps(_mm256_set1_epi32(1));
    return _mm256_or_ps(t, _mm256_and_ps(lost, bit));
  }
};

template <OrderRounding Rounding>
struct RoundF16 : Half<Rounding> {
  static constexpr bool kLikeF32 = false;
  static constexpr float kLeastNormal = 0x1p-14F, kQuickFactor = 0x1.8p13F, kQuickScale = 0x1p100F;
  using Reg = __m256;
  ETALON_INLINE static Reg narrow(Reg x) {
    constexpr int kMode =
        Rounding == OrderRounding::nearest ? _MM_FROUND_TO_NEAREST_INT : _MM_FROUND_CUR_DIRECTION;
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, kMode | _MM_FROUND_NO_EXC));
  }
  ETALON_INLINE static Reg flush(Reg v) { return OrderF32::flush_below(v, 0x1p-14F); }
  // What is subnormal becomes so in f32, exactly, and is read as zero.
  ETALON_INLINE static Reg flush_in_mode(Reg v) {
    return _mm256_mul_ps(_mm256_mul_ps(v, _mm256_set1_ps(0x1p-112F)), _mm256_set1_ps(0x1p112F));
  }
};

// On the bits: a carry into the exponent is the right result too. NaNs here are 7fc00000 or
// ffc00000 and stay what they are.
template <OrderRounding Rounding>
struct RoundBF16 : Half<Rounding> {
  static constexpr bool kLikeF32 = true;
  static constexpr float kLeastNormal = 0x1p-126F, kQuickFactor = 0x1.8p16F, kQuickScale = 1;
  using Reg = __m256;
  ETALON_INLINE static Reg narrow(Reg v) {
    const __m256i x = _mm256_castps_si256(v);
    if constexpr (Rounding == OrderRounding::zero) {
      return upper(x);
    } else if constexpr (Rounding == OrderRounding::nearest) {
      return Half<Rounding>::template round_bits<16>(v);
    } else {
      const __m256i negative = _mm256_srai_epi32(x, 31), bits = _mm256_set1_epi32(0xffff);
      return upper(_mm256_add_epi32(x, Rounding == OrderRounding::down
                                           ? _mm256_and_si256(negative, bits)
                                           : _mm256_andnot_si256(negative, bits)));
    }
  }

 private:
  ETALON_INLINE static Reg upper(__m256i x) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }
};

// Toward one side the processor knows which.
template <OrderRounding Rounding>
using RoundAnyF16 = RoundF16<Rounding == OrderRounding::nearest ? Rounding : OrderRounding::zero>;

using Arithmetics =
    simd::OrderArithmetics<OrderF32, OrderF64, RoundAnyF16, RoundBF16, OrderRounding::zero>;

}  // namespace

const OrderTiles<float>& order_f32(const OrderArithmetic& a) { return Arithmetics::in_f32(a); }
const OrderTiles<double>& order_f64(const OrderArithmetic& a) { return Arithmetics::in_f64(a); }

}  // namespace etalon::avx2
