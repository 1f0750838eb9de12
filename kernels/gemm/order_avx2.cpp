// Chains of kernels/gemm/order.h for AVX2. What rounding an f32 to f16 or bf16 leaves open is
// computed by scalars, lane by lane.
#include "engine/numerics/fp.h"
#include "kernels/gemm/order_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct OrderF32 : F32 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm256_blendv_ps(c, _mm256_add_ps(c, x), _mm256_castsi256_ps(m));
  }
  // Below `least` the sign alone is left.
  ETALON_INLINE static Reg flush_below(Reg v, float least) {
    const Reg sign = _mm256_set1_ps(-0.0F);
    const Reg kept = _mm256_cmp_ps(_mm256_andnot_ps(sign, v), _mm256_set1_ps(least), _CMP_NLT_UQ);
    return _mm256_and_ps(v, _mm256_or_ps(kept, sign));
  }
  ETALON_INLINE static Reg flush(Reg v) { return flush_below(v, 0x1p-126F); }
  ETALON_INLINE static Reg gather(const float* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), from,
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(offset)),
                                    _mm256_castsi256_ps(from_bits(mask)), 4);
  }
};

struct OrderF64 : F64 {
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) {
    return _mm256_blendv_pd(c, _mm256_add_pd(c, x), _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm256_blendv_pd(otherwise, then, _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Reg flush(Reg v) {
    const Reg sign = _mm256_set1_pd(-0.0);
    const Reg kept =
        _mm256_cmp_pd(_mm256_andnot_pd(sign, v), _mm256_set1_pd(0x1p-1022), _CMP_NLT_UQ);
    return _mm256_and_pd(v, _mm256_or_pd(kept, sign));
  }
  ETALON_INLINE static Reg gather(const double* from, const std::int32_t* offset,
                                  std::uint32_t mask) {
    return _mm256_mask_i32gather_pd(_mm256_setzero_pd(), from,
                                    _mm_loadu_si128(reinterpret_cast<const __m128i*>(offset)),
                                    _mm256_castsi256_pd(from_bits(mask)), 8);
  }
};

struct RoundF16 : OrderF32 {
  static constexpr DType kType = DType::f16;
  static constexpr bool kExactProducts = true;  // 22 bits, down to 2^-48
  ETALON_INLINE static Reg to_nearest(Reg x) {
    return _mm256_cvtph_ps(_mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  // Open: midpoints of normal numbers, whose lower 13 bits are 1 and zeros, and what lies below
  // those, where the midpoints' bits are others.
  ETALON_INLINE static Mask round_fma(Reg near, Reg& rounded) {
    rounded = to_nearest(near);
    const __m256i x = _mm256_castps_si256(near);
    const __m256i middle = _mm256_cmpeq_epi32(_mm256_slli_epi32(x, 19),
                                              _mm256_set1_epi32(static_cast<int>(0x80000000U)));
    const __m256i magnitude = _mm256_and_si256(x, _mm256_set1_epi32(0x7fffffff));
    const __m256i small =
        _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(0x38800000), magnitude),
                         _mm256_cmpgt_epi32(magnitude, _mm256_setzero_si256()));
    return _mm256_or_si256(middle, small);
  }
  ETALON_INLINE static Reg flush(Reg v) { return flush_below(v, 0x1p-14F); }
};

struct RoundBF16 : OrderF32 {
  static constexpr DType kType = DType::bf16;
  static constexpr bool kExactProducts = false;  // below 2^-149
  // On the bits: a carry into the exponent is the right result too. NaNs here are 7fc00000 or
  // ffc00000 and stay what they are.
  ETALON_INLINE static Reg to_nearest(Reg near) {
    const __m256i x = _mm256_castps_si256(near);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(x, 16), _mm256_set1_epi32(1));
    return upper(_mm256_add_epi32(_mm256_add_epi32(x, _mm256_set1_epi32(0x7fff)), odd));
  }
  // Open: what is subnormal.
  ETALON_INLINE static Mask round_product(Reg near, Reg& rounded) {
    rounded = to_nearest(near);
    const __m256i magnitude =
        _mm256_and_si256(_mm256_castps_si256(near), _mm256_set1_epi32(0x7fffffff));
    return _mm256_and_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(0x00800000), magnitude),
                            _mm256_cmpgt_epi32(magnitude, _mm256_setzero_si256()));
  }
  // Open: midpoints, whose lower 16 bits are 1 and zeros.
  ETALON_INLINE static Mask round_fma(Reg near, Reg& rounded) {
    const __m256i half = _mm256_add_epi32(_mm256_castps_si256(near), _mm256_set1_epi32(0x8000));
    rounded = upper(half);
    return _mm256_cmpeq_epi32(_mm256_slli_epi32(half, 16), _mm256_setzero_si256());
  }

 private:
  ETALON_INLINE static Reg upper(__m256i x) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xffff0000U))));
  }
};

// What is open is finite and no zero.
template <class Format>
struct Settled : Format {
  using Reg = __m256;
  using Mask = __m256i;
  ETALON_NOINLINE static void settle_product(std::uint32_t open, const float* a, const float* b,
                                             float* rounded) {
    for (; open != 0; open &= open - 1) {
      const int i = __builtin_ctz(open);
      rounded[i] = static_cast<float>(
          round_to(static_cast<double>(a[i]) * static_cast<double>(b[i]), Format::kType));
    }
  }
  // The product is exact in f64; the sum is rounded once.
  ETALON_NOINLINE static void settle_fma(std::uint32_t open, const float* a, const float* b,
                                         const float* c, float* rounded) {
    for (; open != 0; open &= open - 1) {
      const int i = __builtin_ctz(open);
      const TwoDoubles s =
          two_sum(static_cast<double>(a[i]) * static_cast<double>(b[i]), static_cast<double>(c[i]));
      rounded[i] = static_cast<float>(round_sum_to(s.value, s.error, Format::kType));
    }
  }
  ETALON_INLINE static Reg settled_product(Mask open, Reg a, Reg b, Reg rounded) {
    alignas(32) float x[3][8];
    _mm256_store_ps(x[0], a);
    _mm256_store_ps(x[1], b);
    _mm256_store_ps(x[2], rounded);
    settle_product(Format::to_bits(open), x[0], x[1], x[2]);
    return _mm256_load_ps(x[2]);
  }
  ETALON_INLINE static Reg settled_fma(Mask open, Reg a, Reg b, Reg c, Reg rounded) {
    alignas(32) float x[4][8];
    _mm256_store_ps(x[0], a);
    _mm256_store_ps(x[1], b);
    _mm256_store_ps(x[2], c);
    _mm256_store_ps(x[3], rounded);
    settle_fma(Format::to_bits(open), x[0], x[1], x[2], x[3]);
    return _mm256_load_ps(x[3]);
  }
};

using Arithmetics =
    simd::OrderArithmetics<OrderF32, OrderF64, Settled<RoundF16>, Settled<RoundBF16>>;

}  // namespace

const OrderTiles<float>& order_f32(const OrderArithmetic& a) { return Arithmetics::in_f32(a); }
const OrderTiles<double>& order_f64(const OrderArithmetic& a) { return Arithmetics::in_f64(a); }

}  // namespace etalon::avx2
