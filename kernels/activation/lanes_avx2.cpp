#include "kernels/activation/lanes_softmax_inl.h"
#include "kernels/simd/avx2.h"
#include "kernels/simd/underflow.h"

namespace etalon::avx2 {
namespace {

// Eight floats, with what pairs of them need (lanes_pair_base_inl.h).
struct Pairs : F32 {
  using Int = __m256i;
  static constexpr int kEntryBits = 3, kGeluVectors = 1;
  ETALON_INLINE static void forget_underflow() { simd::forget_underflow(); }
  ETALON_INLINE static bool underflowed() { return simd::underflowed(); }
  // Made by now, wherever a compiler would rather make it.
  ETALON_INLINE static void here(Int& a) { asm("" : "+x"(a)); }
  ETALON_INLINE static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }  // b if one is NaN
  ETALON_INLINE static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  ETALON_INLINE static Reg abs(Reg a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0F), a); }
  ETALON_INLINE static Reg neg(Reg a) { return _mm256_xor_ps(a, _mm256_set1_ps(-0.0F)); }
  ETALON_INLINE static Reg nearest_128th(Reg a) {
    const Reg shift = _mm256_set1_ps(0x1.8p16F);
    return sub(add(a, shift), shift);
  }
  ETALON_INLINE static Reg fms(Reg a, Reg b, Reg c) { return _mm256_fmsub_ps(a, b, c); }
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm256_fnmadd_ps(a, b, c); }
  ETALON_INLINE static Reg fnms(Reg a, Reg b, Reg c) { return _mm256_fnmsub_ps(a, b, c); }
  ETALON_INLINE static Reg near_reciprocal(Reg a) { return _mm256_rcp_ps(a); }  // 1.5 * 2^-12
  // The entry of 8 that t's low three bits name.
  ETALON_INLINE static Reg entry(const float* table, Reg t) {
    return _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), _mm256_castps_si256(t));
  }
  // The float whose bits are such an entry and 2^20 times t's.
  ETALON_INLINE static Reg power(const std::uint32_t* table, Reg t) {
    const Int n = _mm256_castps_si256(t);
    const Int bits =
        _mm256_permutevar8x32_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(table)), n);
    return _mm256_castsi256_ps(_mm256_add_epi32(bits, _mm256_slli_epi32(n, 20)));
  }
  template <int N>
  ETALON_INLINE static Reg without_first(Reg a) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(a), N));
  }
  // Where the rows lie of a table with four columns that the lanes' last 16 bits number.
  ETALON_INLINE static void store_places(std::uint32_t* places, Reg t) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(places),
                        _mm256_slli_epi32(_mm256_castps_si256(t), 2));
  }
  ETALON_INLINE static void rows(const float* table, const std::uint32_t* places,
                                 Reg (&column)[4]) {
    const auto row = [&](int i) ETALON_INLINE_LAMBDA {
      return _mm_loadu_ps(table + static_cast<std::uint16_t>(places[i]));
    };
    Reg part[4];  // rows i and i + 4
    simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
      part[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(row(i)), row(i + 4), 1);
    });
    const __m256d a = _mm256_castps_pd(_mm256_unpacklo_ps(part[0], part[1]));
    const __m256d b = _mm256_castps_pd(_mm256_unpackhi_ps(part[0], part[1]));
    const __m256d c = _mm256_castps_pd(_mm256_unpacklo_ps(part[2], part[3]));
    const __m256d d = _mm256_castps_pd(_mm256_unpackhi_ps(part[2], part[3]));
    column[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(a, c));
    column[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(a, c));
    column[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(b, d));
    column[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(b, d));
  }
  ETALON_INLINE static std::uint32_t lanes_of(Reg a) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(a));
  }
  ETALON_INLINE static std::uint32_t lanes_of(Int a) { return lanes_of(_mm256_castsi256_ps(a)); }
  ETALON_INLINE static Mask not_less(Reg a, Reg b) {
    return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_NLT_UQ));
  }
  ETALON_INLINE static std::uint32_t differ(Reg a, Reg b) {
    return lanes_of(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ));
  }
  ETALON_INLINE static std::uint32_t differ(Mask m, Reg a, Reg b) {
    return lanes_of(_mm256_and_ps(_mm256_castsi256_ps(m), _mm256_cmp_ps(a, b, _CMP_NEQ_UQ)));
  }
  ETALON_INLINE static Int to_int(Reg a) { return _mm256_castps_si256(a); }
  ETALON_INLINE static Int bits_or(Int a, Int b) { return _mm256_or_si256(a, b); }
  // Twice the bits without the sign: the order of sizes. Less one: with zero at the top.
  ETALON_INLINE static Int twice(Reg a) { return _mm256_add_epi32(to_int(a), to_int(a)); }
  ETALON_INLINE static Int twice_less_one(Reg a) {
    return _mm256_add_epi32(twice(a), _mm256_set1_epi32(-1));
  }
  ETALON_INLINE static Int smaller(Int a, Int b) { return _mm256_min_epu32(a, b); }
  ETALON_INLINE static std::uint32_t bits_below(Int a, std::uint32_t limit) {
    const Int last = _mm256_set1_epi32(static_cast<int>(limit - 1));
    return lanes_of(_mm256_cmpeq_epi32(_mm256_min_epu32(a, last), a));
  }
  // Of a that has no sign, or the wanted one.
  ETALON_INLINE static Reg with_sign(Reg a, Reg sign) {
    return _mm256_or_ps(a, _mm256_and_ps(sign, _mm256_set1_ps(-0.0F)));
  }
  // Where m the magnitude with sign's sign, else `sign` itself.
  ETALON_INLINE static Reg signed_where(Mask m, Reg magnitude, Reg sign) {
    return select(m, with_sign(magnitude, sign), sign);
  }
  ETALON_INLINE static Int no_bits() { return _mm256_setzero_si256(); }
  // Bits of `all`, and those in which t differs from `wanted`.
  ETALON_INLINE static Int or_changed(Int all, Reg t, std::uint32_t wanted) {
    return _mm256_or_si256(
        all, _mm256_xor_si256(_mm256_castps_si256(t), _mm256_set1_epi32(static_cast<int>(wanted))));
  }
  ETALON_INLINE static std::uint32_t bits_in(Int a, std::uint32_t mask) {
    const Int some = _mm256_and_si256(a, _mm256_set1_epi32(static_cast<int>(mask)));
    return 0xffU & ~lanes_of(_mm256_cmpeq_epi32(some, _mm256_setzero_si256()));
  }
  ETALON_INLINE static bool any_bit(Int a, std::uint32_t mask) {
    return _mm256_testz_si256(a, _mm256_set1_epi32(static_cast<int>(mask))) == 0;
  }
};

// Four doubles, with what elementary functions need beyond arithmetic.
struct Lanes : F64 {
  using FloatPairs = Pairs;
  using Test = __m256d;
  using Int = __m256i;
  using Floats = F32;
  using F64::sub, F64::widen;
  ETALON_INLINE static __m256 leaky_relu(__m256 x, __m256 slope) {
    return F32::canonical(
        _mm256_blendv_ps(x, _mm256_mul_ps(x, slope), _mm256_cmp_ps(x, F32::zero(), _CMP_LT_OQ)));
  }
  ETALON_INLINE static __m256 sqrt(__m256 x) { return F32::canonical(_mm256_sqrt_ps(x)); }
  ETALON_INLINE static __m256 hard_tanh(__m256 x, __m256 low, __m256 high) {
    __m256 y = _mm256_blendv_ps(x, high, _mm256_cmp_ps(x, high, _CMP_GT_OQ));
    y = _mm256_blendv_ps(y, low, _mm256_cmp_ps(x, low, _CMP_LT_OQ));
    return F32::canonical(y);
  }
  // Between 0 and 1; -0 becomes +0, NaN the canonical one (the second operand, where one is NaN).
  ETALON_INLINE static __m256 unit(__m256 x) {
    return _mm256_min_ps(F32::set1(1), F32::clear_negative(F32::canonical(x)));
  }
  static constexpr bool quick = false;
  ETALON_INLINE static Reg fnma(Reg a, Reg b, Reg c) { return _mm256_fnmadd_pd(a, b, c); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  ETALON_INLINE static Reg min(Reg a, Reg b) { return _mm256_min_pd(a, b); }  // b if one is NaN
  ETALON_INLINE static Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  ETALON_INLINE static Reg abs(Reg a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  ETALON_INLINE static Reg neg(Reg a) { return _mm256_xor_pd(a, _mm256_set1_pd(-0.0)); }
  // The magnitude's own sign does not count.
  ETALON_INLINE static Reg copy_sign(Reg magnitude, Reg sign) {
    const Reg bit = _mm256_set1_pd(-0.0);
    return _mm256_or_pd(_mm256_andnot_pd(bit, magnitude), _mm256_and_pd(sign, bit));
  }
  ETALON_INLINE static Test less(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  ETALON_INLINE static Test unordered(Reg a) { return _mm256_cmp_pd(a, a, _CMP_UNORD_Q); }
  ETALON_INLINE static Test not_less(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_NLT_UQ); }
  ETALON_INLINE static Test not_inside(Reg x, Reg low, Reg high) {
    return _mm256_or_pd(not_less(low, x), not_less(x, high));
  }
  ETALON_INLINE static std::uint32_t to_bits(Test m) {
    return static_cast<std::uint32_t>(_mm256_movemask_pd(m));
  }
  ETALON_INLINE static Reg select(Test m, Reg yes, Reg no) { return _mm256_blendv_pd(no, yes, m); }
  ETALON_INLINE static Int bits64(Reg a) { return _mm256_castpd_si256(a); }
  ETALON_INLINE static Reg from_bits64(Int a) { return _mm256_castsi256_pd(a); }
  ETALON_INLINE static Int set64(std::int64_t a) { return _mm256_set1_epi64x(a); }
  ETALON_INLINE static Int add64(Int a, Int b) { return _mm256_add_epi64(a, b); }
  ETALON_INLINE static Int sub64(Int a, Int b) { return _mm256_sub_epi64(a, b); }
  ETALON_INLINE static Reg sqrt(Reg a) { return _mm256_sqrt_pd(a); }
  ETALON_INLINE static Int and64(Int a, Int b) { return _mm256_and_si256(a, b); }
  ETALON_INLINE static Reg flip(Reg a, Int sign) {
    return _mm256_xor_pd(a, _mm256_castsi256_pd(sign));
  }
  ETALON_INLINE static Test top_bit(Int a) { return _mm256_castsi256_pd(a); }
  ETALON_INLINE static Reg gather(const double* table, Int index) {
    return _mm256_i64gather_pd(table, index, 8);
  }
  ETALON_INLINE static Int or64(Int a, Int b) { return _mm256_or_si256(a, b); }
  template <int N>
  ETALON_INLINE static Int shift_left(Int a) {
    return _mm256_slli_epi64(a, N);
  }
  template <int N>
  ETALON_INLINE static Int shift_right(Int a) {
    return _mm256_srli_epi64(a, N);
  }
  ETALON_INLINE static Reg widen(__m128 a) { return _mm256_cvtps_pd(a); }
  ETALON_INLINE static __m128 narrow(Reg a) { return _mm256_cvtpd_ps(a); }
  ETALON_INLINE static std::uint32_t narrow_differ(__m128 a, __m128 b) {
    return static_cast<std::uint32_t>(_mm_movemask_ps(_mm_cmpneq_ps(a, b)));
  }
  ETALON_INLINE static void narrow_store(float* p, __m128 a) { _mm_storeu_ps(p, a); }
  ETALON_INLINE static void narrow_store(float* p, __m128 a, int n) {
    _mm_maskstore_ps(p, _mm_cmpgt_epi32(_mm_set1_epi32(n), _mm_setr_epi32(0, 1, 2, 3)), a);
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

}  // namespace etalon::avx2
