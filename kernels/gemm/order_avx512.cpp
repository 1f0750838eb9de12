// Chains of kernels/gemm/order.h for AVX-512.
//
// What rounding an f32 to f16 or bf16 leaves open is computed in f32 rounded down and rounded up;
// of the two neighbours the one with an odd last bit is the result rounded to odd (where both are
// equal it is exact, and either will do), and rounding that once more to the narrow format is one
// correct rounding, since f32 has more than two bits to spare (Boldo, Melquiond, "Emulation of FMA
// and correctly rounded sums", IEEE TC 57(4), 2008). x - x is -0 rounded down and +0 rounded up;
// the choice of the even one's partner gives +0, as it must be.
#include "kernels/gemm/order_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

constexpr int kSubnormal = 0x20;  // class of vfpclass

struct OrderF32 : F32 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm512_mask_add_ps(c, m, c, x);
  }
  ETALON_INLINE static Reg flush(Reg v) {
    return _mm512_mask_and_ps(v, _mm512_fpclass_ps_mask(v, kSubnormal), v, _mm512_set1_ps(-0.0F));
  }
  ETALON_INLINE static Reg gather(const float* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), static_cast<Mask>(mask),
                                    _mm512_loadu_si512(offset), from, 4);
  }
};

struct OrderF64 : F64 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm512_mask_add_pd(c, m, c, x);
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm512_mask_blend_pd(m, otherwise, then);
  }
  ETALON_INLINE static Reg flush(Reg v) {
    return _mm512_mask_and_pd(v, _mm512_fpclass_pd_mask(v, kSubnormal), v, _mm512_set1_pd(-0.0));
  }
  ETALON_INLINE static Reg gather(const double* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), static_cast<Mask>(mask),
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)),
                                    from, 8);
  }
};

constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
constexpr int kUp = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;

struct RoundF16 : OrderF32 {
  static constexpr bool kExactProducts = true;  // 22 bits, down to 2^-48
  ETALON_INLINE static Reg to_nearest(Reg x) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  // Open: midpoints of normal numbers, whose lower 13 bits are 1 and zeros; and all that is no
  // normal number and no zero, which is rounded at other bits. Of the rest a carry into the
  // exponent is the right result too.
  ETALON_INLINE static Mask round_fma(Reg near, Reg& rounded) {
    const __m512i x = _mm512_castps_si512(near);
    const __m512i half = _mm512_add_epi32(x, _mm512_set1_epi32(0x1000));
    rounded = _mm512_castsi512_ps(_mm512_and_si512(half, _mm512_set1_epi32(~0x1fff)));
    const Mask middle = _mm512_testn_epi32_mask(half, _mm512_set1_epi32(0x1fff));
    // Twice the bits of 2^-14, and of the largest that rounds to a number.
    constexpr std::uint32_t kLeast = 2U * 0x38800000U;
    constexpr std::uint32_t kMost = 2U * 0x477fefffU;
    const __m512i twice = _mm512_add_epi32(x, x);
    const Mask outside = _mm512_mask_test_epi32_mask(
        _mm512_cmpgt_epu32_mask(
            _mm512_sub_epi32(twice, _mm512_set1_epi32(static_cast<int>(kLeast))),
            _mm512_set1_epi32(static_cast<int>(kMost - kLeast))),
        twice, twice);
    return _kor_mask16(middle, outside);
  }
  ETALON_INLINE static Reg flush(Reg v) {
    const Mask small = _mm512_cmp_ps_mask(_mm512_abs_ps(v), _mm512_set1_ps(0x1p-14F), _CMP_LT_OQ);
    return _mm512_mask_and_ps(v, small, v, _mm512_set1_ps(-0.0F));
  }
};

struct RoundBF16 : OrderF32 {
  static constexpr bool kExactProducts = false;  // below 2^-149
  // On the bits: a carry into the exponent is the right result too. NaNs here are 7fc00000 or
  // ffc00000 and stay what they are.
  ETALON_INLINE static Reg to_nearest(Reg near) {
    const __m512i x = _mm512_castps_si512(near);
    const __mmask16 up = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x10000));
    const __m512i half = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
    return upper(_mm512_mask_add_epi32(half, up, half, _mm512_set1_epi32(1)));
  }
  ETALON_INLINE static Mask round_product(Reg near, Reg& rounded) {
    rounded = to_nearest(near);
    return _mm512_fpclass_ps_mask(near, kSubnormal);
  }
  // Open: midpoints, whose lower 16 bits are 1 and zeros.
  ETALON_INLINE static Mask round_fma(Reg near, Reg& rounded) {
    const __m512i half = _mm512_add_epi32(_mm512_castps_si512(near), _mm512_set1_epi32(0x8000));
    rounded = upper(half);
    return _mm512_testn_epi32_mask(half, _mm512_set1_epi32(0xffff));
  }

 private:
  ETALON_INLINE static Reg upper(__m512i x) {
    return _mm512_castsi512_ps(
        _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
};

template <class Format>
struct Settled : Format {
  using Reg = __m512;
  using Mask = __mmask16;
  ETALON_INLINE static Reg once(Reg down, Reg up) {
    const Mask odd = _mm512_test_epi32_mask(_mm512_castps_si512(down), _mm512_set1_epi32(1));
    return Format::to_nearest(_mm512_mask_blend_ps(odd, up, down));
  }
  ETALON_INLINE static Reg settled_product(Mask, Reg a, Reg b, Reg) {
    return once(_mm512_mul_round_ps(a, b, kDown), _mm512_mul_round_ps(a, b, kUp));
  }
  ETALON_INLINE static Reg settled_fma(Mask, Reg a, Reg b, Reg c, Reg) {
    return once(_mm512_fmadd_round_ps(a, b, c, kDown), _mm512_fmadd_round_ps(a, b, c, kUp));
  }
};

using Arithmetics =
    simd::OrderArithmetics<OrderF32, OrderF64, Settled<RoundF16>, Settled<RoundBF16>>;

}  // namespace

const OrderTiles<float>& order_f32(const OrderArithmetic& a) { return Arithmetics::in_f32(a); }
const OrderTiles<double>& order_f64(const OrderArithmetic& a) { return Arithmetics::in_f64(a); }

}  // namespace etalon::avx512
