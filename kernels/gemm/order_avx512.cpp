// Chains of kernels/gemm/order.h for AVX-512.
//
// f16 and bf16 accumulators live in f32 registers. An operation on them is computed in f32 rounded
// down and rounded up; of the two neighbours the one with an odd last bit is the result rounded to
// odd (where both are equal it is exact, and either will do), and rounding that once more to the
// narrow format is one correct rounding, since f32 has more than two bits to spare (Boldo,
// Melquiond, "Emulation of FMA and correctly rounded sums", IEEE TC 57(4), 2008). x - x is -0
// rounded down and +0 rounded up; the choice of the even one's partner gives +0, as it must be.
#include "kernels/gemm/order_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct OrderF32 : F32 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm512_mask_add_ps(c, m, c, x);
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
  ETALON_INLINE static Reg gather(const double* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm512_mask_i32gather_pd(_mm512_setzero_pd(), static_cast<Mask>(mask),
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)),
                                    from, 8);
  }
};

constexpr int kDown = _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC;
constexpr int kUp = _MM_FROUND_TO_POS_INF | _MM_FROUND_NO_EXC;

struct RoundF16 {
  static constexpr bool kExactProducts = true;  // 22 bits, down to 2^-48
  ETALON_INLINE static __m512 round(__m512 odd) {
    return _mm512_cvtph_ps(_mm512_cvtps_ph(odd, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
};

struct RoundBF16 {
  static constexpr bool kExactProducts = false;  // below 2^-149
  // To nearest, ties to even, on the bits: a carry into the exponent is the right result too. NaNs
  // here are 7fc00000 or ffc00000 and stay what they are.
  ETALON_INLINE static __m512 round(__m512 odd) {
    const __m512i x = _mm512_castps_si512(odd);
    const __mmask16 up = _mm512_test_epi32_mask(x, _mm512_set1_epi32(0x10000));
    const __m512i half = _mm512_add_epi32(x, _mm512_set1_epi32(0x7fff));
    return _mm512_castsi512_ps(
        _mm512_and_si512(_mm512_mask_add_epi32(half, up, half, _mm512_set1_epi32(1)),
                         _mm512_set1_epi32(static_cast<int>(0xffff0000U))));
  }
};

template <class Format, bool Fused>
struct Narrow : OrderF32 {
  ETALON_INLINE static Reg once(Reg down, Reg up) {
    const Mask odd = _mm512_test_epi32_mask(_mm512_castps_si512(down), _mm512_set1_epi32(1));
    return Format::round(_mm512_mask_blend_ps(odd, up, down));
  }
  ETALON_INLINE static Reg add(Reg a, Reg b) {
    return once(_mm512_add_round_ps(a, b, kDown), _mm512_add_round_ps(a, b, kUp));
  }
  ETALON_INLINE static Reg mul(Reg a, Reg b) {
    if constexpr (Format::kExactProducts)
      return Format::round(_mm512_mul_ps(a, b));
    else
      return once(_mm512_mul_round_ps(a, b, kDown), _mm512_mul_round_ps(a, b, kUp));
  }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) {
    if constexpr (Fused)
      return once(_mm512_fmadd_round_ps(a, b, c, kDown), _mm512_fmadd_round_ps(a, b, c, kUp));
    else
      return add(c, mul(a, b));
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return _mm512_mask_blend_ps(m, c, fma(a, b, c));
  }
};

template <class N>
const OrderTiles<typename N::Scalar>& tiles() {
  static const OrderTiles<typename N::Scalar> made = simd::make_order_tiles<N>();
  return made;
}

}  // namespace

const OrderTiles<float>& order_f32(bool fma) {
  return fma ? tiles<simd::PlainArithmetic<OrderF32, true>>()
             : tiles<simd::PlainArithmetic<OrderF32, false>>();
}
const OrderTiles<float>& order_f16(bool fma) {
  return fma ? tiles<Narrow<RoundF16, true>>() : tiles<Narrow<RoundF16, false>>();
}
const OrderTiles<float>& order_bf16(bool fma) {
  return fma ? tiles<Narrow<RoundBF16, true>>() : tiles<Narrow<RoundBF16, false>>();
}
const OrderTiles<double>& order_f64(bool fma) {
  return fma ? tiles<simd::PlainArithmetic<OrderF64, true>>()
             : tiles<simd::PlainArithmetic<OrderF64, false>>();
}

}  // namespace etalon::avx512
