#include "kernels/activation/lanes_softmax_inl.h"
#include "kernels/simd/avx512.h"
#include "kernels/simd/underflow.h"

namespace etalon::avx512 {
namespace {

// Sixteen floats, with what pairs of them need (lanes_pair_base_inl.h). Masks of lanes as bits.
struct Pairs : F32 {
  using Int = __m512i;
  static constexpr int kEntryBits = 5, kGeluVectors = 2;
  ETALON_INLINE static void forget_underflow() { simd::forget_underflow(); }
  ETALON_INLINE static bool underflowed() { return simd::underflowed(); }
  // Made by now, wherever a compiler would rather make it.
  ETALON_INLINE static void here(Int& a) { asm("" : "+v"(a)); }
  ETALON_INLINE static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }  // b if one is NaN
  ETALON_INLINE static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  ETALON_INLINE static Reg abs(Reg a) { return _mm512_abs_ps(a); }
  ETALON_INLINE static Reg neg(Reg a) { return _mm512_xor_ps(a, _mm512_set1_ps(-0.0F)); }
  ETALON_INLINE static Reg nearest_128th(Reg a) {
    constexpr int kBits = 7 << 4;
    return _mm512_roundscale_ps(a, kBits | _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  ETALON_INLINE static Reg fms(Reg a, Reg b, Reg c) { return _mm512_fmsub_ps(a, b, c); }
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm512_fnmadd_ps(a, b, c); }
  ETALON_INLINE static Reg fnms(Reg a, Reg b, Reg c) { return _mm512_fnmsub_ps(a, b, c); }
  ETALON_INLINE static Reg near_reciprocal(Reg a) { return _mm512_rcp14_ps(a); }  // error 2^-14
  // The entry of 32 that t's low five bits name.
  ETALON_INLINE static Reg entry(const float* table, Reg t) {
    return _mm512_permutex2var_ps(_mm512_loadu_ps(table), _mm512_castps_si512(t),
                                  _mm512_loadu_ps(table + 16));
  }
  // The float whose bits are such an entry and 2^18 times t's.
  ETALON_INLINE static Reg power(const std::uint32_t* table, Reg t) {
    const Int n = _mm512_castps_si512(t);
    const Int bits =
        _mm512_permutex2var_epi32(_mm512_loadu_si512(table), n, _mm512_loadu_si512(table + 16));
    return _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_slli_epi32(n, 18)));
  }
  template <int N>
  ETALON_INLINE static Reg without_first(Reg a) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(a), N));
  }
  // Four 128-bit parts of a vector are four rows, every fourth one's: two of them joined cost less
  // than each put in its place.
  ETALON_INLINE static void rows(const float* table, const std::uint32_t* places,
                                 Reg (&column)[4]) {
    const auto row = [&](int i) ETALON_INLINE_LAMBDA {
      return _mm_loadu_ps(table + static_cast<std::uint16_t>(places[i]));
    };
    const auto two = [&](int i) ETALON_INLINE_LAMBDA {
      return _mm256_insertf128_ps(_mm256_castps128_ps256(row(i)), row(i + 4), 1);
    };
    __m512 part[4];
    simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
      part[i] = _mm512_insertf32x8(_mm512_castps256_ps512(two(i)), two(i + 8), 1);
    });
    const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(part[0], part[1]));
    const __m512d b = _mm512_castps_pd(_mm512_unpackhi_ps(part[0], part[1]));
    const __m512d c = _mm512_castps_pd(_mm512_unpacklo_ps(part[2], part[3]));
    const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(part[2], part[3]));
    column[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    column[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    column[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    column[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
  // a times 2 to the integer part of w.
  ETALON_INLINE static Reg times_power(Reg a, Reg w) { return _mm512_scalef_ps(a, w); }
  ETALON_INLINE static Mask not_less(Reg a, Reg b) { return _mm512_cmp_ps_mask(a, b, _CMP_NLT_UQ); }
  ETALON_INLINE static std::uint32_t differ(Reg a, Reg b) {
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
  }
  ETALON_INLINE static std::uint32_t differ(Mask m, Reg a, Reg b) {
    return _mm512_mask_cmp_ps_mask(m, a, b, _CMP_NEQ_UQ);
  }
  ETALON_INLINE static Int to_int(Reg a) { return _mm512_castps_si512(a); }
  ETALON_INLINE static Int bits_or(Int a, Int b) { return _mm512_or_si512(a, b); }
  // Twice the bits without the sign: the order of sizes. Less one: with zero at the top.
  ETALON_INLINE static Int twice(Reg a) { return _mm512_add_epi32(to_int(a), to_int(a)); }
  ETALON_INLINE static Int twice_less_one(Reg a) {
    return _mm512_add_epi32(twice(a), _mm512_set1_epi32(-1));
  }
  ETALON_INLINE static Int smaller(Int a, Int b) { return _mm512_min_epu32(a, b); }
  ETALON_INLINE static std::uint32_t bits_below(Int a, std::uint32_t limit) {
    return _mm512_cmplt_epu32_mask(a, _mm512_set1_epi32(static_cast<int>(limit)));
  }
  // Of a that has no sign, or the wanted one.
  ETALON_INLINE static Reg with_sign(Reg a, Reg sign) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(
        _mm512_castps_si512(_mm512_set1_ps(-0.0F)), _mm512_castps_si512(sign),
        _mm512_castps_si512(a), 0xea));  // (first and second) or third
  }
  // Where m the magnitude with sign's sign, else `sign` itself.
  ETALON_INLINE static Reg signed_where(Mask m, Reg magnitude, Reg sign) {
    return _mm512_castsi512_ps(_mm512_mask_ternarylogic_epi32(
        _mm512_castps_si512(sign), m, _mm512_castps_si512(_mm512_set1_ps(-0.0F)),
        _mm512_castps_si512(magnitude), 0xe2));  // second ? first : third
  }
  ETALON_INLINE static Int no_bits() { return _mm512_setzero_si512(); }
  // Bits of `all`, and those in which t differs from `wanted`.
  ETALON_INLINE static Int or_changed(Int all, Reg t, std::uint32_t wanted) {
    return _mm512_ternarylogic_epi32(all, _mm512_castps_si512(t),
                                     _mm512_set1_epi32(static_cast<int>(wanted)), 0xf6);
  }
  ETALON_INLINE static std::uint32_t bits_in(Int a, std::uint32_t mask) {
    return _mm512_test_epi32_mask(a, _mm512_set1_epi32(static_cast<int>(mask)));
  }
  ETALON_INLINE static bool any_bit(Int a, std::uint32_t mask) { return bits_in(a, mask) != 0; }
};

// Eight doubles, with what elementary functions need beyond arithmetic.
struct Lanes : F64 {
  using FloatPairs = Pairs;
  using Test = __mmask8;
  using Int = __m512i;
  using Floats = F32;
  using F64::sub, F64::widen;
  ETALON_INLINE static __m512 leaky_relu(__m512 x, __m512 slope) {
    return F32::canonical(
        _mm512_mask_mul_ps(x, _mm512_cmp_ps_mask(x, F32::zero(), _CMP_LT_OQ), x, slope));
  }
  ETALON_INLINE static __m512 sqrt(__m512 x) { return F32::canonical(_mm512_sqrt_ps(x)); }
  ETALON_INLINE static __m512 hard_tanh(__m512 x, __m512 low, __m512 high) {
    __m512 y = _mm512_mask_mov_ps(x, _mm512_cmp_ps_mask(x, high, _CMP_GT_OQ), high);
    y = _mm512_mask_mov_ps(y, _mm512_cmp_ps_mask(x, low, _CMP_LT_OQ), low);
    return F32::canonical(y);
  }
  // Between 0 and 1; -0 becomes +0, NaN the canonical one (the second operand, where one is NaN).
  ETALON_INLINE static __m512 unit(__m512 x) {
    return _mm512_min_ps(F32::set1(1), F32::clear_negative(F32::canonical(x)));
  }
  static constexpr bool quick = true;
  ETALON_INLINE static Reg reciprocal14(Reg a) { return _mm512_rcp14_pd(a); }  // error 2^-14
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm512_fnmadd_pd(a, b, c); }
  // 2^(n/16) for the low bits n of each lane.
  ETALON_INLINE static Reg power_sixteenth(Int n) {
    const Int low = _mm512_loadu_si512(polynomials::kPowerSixteenth),
              high = _mm512_loadu_si512(polynomials::kPowerSixteenth + 8);
    return _mm512_castsi512_pd(
        _mm512_add_epi64(_mm512_permutex2var_epi64(low, n, high), _mm512_slli_epi64(n, 48)));
  }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  ETALON_INLINE static Reg min(Reg a, Reg b) { return _mm512_min_pd(a, b); }  // b if one is NaN
  ETALON_INLINE static Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  ETALON_INLINE static Reg abs(Reg a) { return _mm512_abs_pd(a); }
  ETALON_INLINE static Reg neg(Reg a) { return _mm512_xor_pd(a, _mm512_set1_pd(-0.0)); }
  // The magnitude's own sign does not count.
  ETALON_INLINE static Reg copy_sign(Reg magnitude, Reg sign) {
    return _mm512_castsi512_pd(_mm512_ternarylogic_epi64(
        _mm512_castpd_si512(_mm512_set1_pd(-0.0)), _mm512_castpd_si512(sign),
        _mm512_castpd_si512(magnitude), 0xca));  // first ? second : third
  }
  ETALON_INLINE static Test less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  ETALON_INLINE static Test unordered(Reg a) { return _mm512_cmp_pd_mask(a, a, _CMP_UNORD_Q); }
  ETALON_INLINE static Test not_less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_NLT_UQ); }
  ETALON_INLINE static Test not_inside(Reg x, Reg low, Reg high) {
    return static_cast<Test>(not_less(low, x) | not_less(x, high));
  }
  ETALON_INLINE static std::uint32_t to_bits(Test m) { return m; }
  ETALON_INLINE static Reg select(Test m, Reg yes, Reg no) {
    return _mm512_mask_blend_pd(m, no, yes);
  }
  ETALON_INLINE static Int bits64(Reg a) { return _mm512_castpd_si512(a); }
  ETALON_INLINE static Reg from_bits64(Int a) { return _mm512_castsi512_pd(a); }
  ETALON_INLINE static Int set64(std::int64_t a) { return _mm512_set1_epi64(a); }
  ETALON_INLINE static Int add64(Int a, Int b) { return _mm512_add_epi64(a, b); }
  ETALON_INLINE static Int sub64(Int a, Int b) { return _mm512_sub_epi64(a, b); }
  ETALON_INLINE static Reg sqrt(Reg a) { return _mm512_sqrt_pd(a); }
  ETALON_INLINE static Int and64(Int a, Int b) { return _mm512_and_si512(a, b); }
  ETALON_INLINE static Reg flip(Reg a, Int sign) {
    return _mm512_castsi512_pd(_mm512_xor_si512(_mm512_castpd_si512(a), sign));
  }
  ETALON_INLINE static Test top_bit(Int a) { return _mm512_movepi64_mask(a); }
  ETALON_INLINE static Reg gather(const double* table, Int index) {
    return _mm512_i64gather_pd(index, table, 8);
  }
  ETALON_INLINE static Int or64(Int a, Int b) { return _mm512_or_si512(a, b); }
  template <int N>
  ETALON_INLINE static Int shift_left(Int a) {
    return _mm512_slli_epi64(a, N);
  }
  template <int N>
  ETALON_INLINE static Int shift_right(Int a) {
    return _mm512_srli_epi64(a, N);
  }
  ETALON_INLINE static Reg widen(__m256 a) { return _mm512_cvtps_pd(a); }
  ETALON_INLINE static __m256 narrow(Reg a) { return _mm512_cvtpd_ps(a); }
  ETALON_INLINE static std::uint32_t narrow_differ(__m256 a, __m256 b) {
    return _mm256_cmp_ps_mask(a, b, _CMP_NEQ_UQ);
  }
  ETALON_INLINE static void narrow_store(float* p, __m256 a) { _mm256_storeu_ps(p, a); }
  ETALON_INLINE static void narrow_store(float* p, __m256 a, int n) {
    _mm256_mask_storeu_ps(p, first(n), a);
  }
};

}  // namespace

const ExpLanes exp_lanes = {LaneSoftmax<Lanes>::exp_shifted, LaneSoftmax<Lanes>::divide,
                            LaneSoftmax<Lanes>::subtract, LaneSoftmax<Lanes>::rounded,
                            LaneSoftmax<Lanes>::summed};

std::int64_t run_lanes(LaneFunction f, const LaneParams& params, const float* x, float* y,
                       std::int64_t count, const LaneFallback& fallback) {
  return LaneMath<Lanes>::run(f, params, x, y, count, fallback, 1);
}
std::int64_t run_lanes_untested(LaneFunction f, const LaneParams& params, const float* x, float* y,
                                std::int64_t count, const LaneFallback& fallback) {
  return LaneMath<Lanes>::run(f, params, x, y, count, fallback, 0);
}
double run_values(LaneFunction f, const LaneParams& params, const float* x, double* y,
                  std::int64_t count) {
  return LaneMath<Lanes>::values(f, params, x, y, count);
}
std::int64_t run_pow(const float* base, const float* exponent, bool exponent_varies, float* out,
                     std::int64_t count, const PowFallback& fallback) {
  return LaneMath<Lanes>::run_pow(base, exponent, exponent_varies, out, count, fallback);
}
double run_pow_values(const float* base, const float* exponent, bool exponent_varies, double* y,
                      std::int64_t count) {
  return LaneMath<Lanes>::pow_values(base, exponent, exponent_varies, y, count);
}
int run_ends(const double* v, double error, double limit, float* y, int count,
             std::uint16_t* open) {
  return LaneMath<Lanes>::ends(v, error, limit, y, count, open);
}

}  // namespace etalon::avx512
