// lanes_f64.h for AVX-512.
#include "kernels/activation/lanes_f64_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {
namespace {

struct Doubles {
  using Reg = __m512d;
  using Bits = __m512i;
  using Mask = __mmask8;
  static constexpr int lanes = 8;
  static constexpr bool kNearest = true;
  ETALON_INLINE static Reg last(Reg high, Reg low) { return add(high, low); }
  ETALON_INLINE static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  ETALON_INLINE static void store(double* p, Reg v) { _mm512_storeu_pd(p, v); }
  ETALON_INLINE static std::uint32_t to_bits(Mask m) { return m; }
  ETALON_INLINE static Reg c(double x) { return _mm512_set1_pd(x); }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  // a - b c, rounded once.
  ETALON_INLINE static Reg sub(Reg a, Reg b, Reg c) { return _mm512_fnmadd_pd(b, c, a); }
  ETALON_INLINE static Reg sqrt(Reg a) { return _mm512_sqrt_pd(a); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm512_div_pd(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  ETALON_INLINE static Reg abs(Reg a) { return _mm512_abs_pd(a); }
  ETALON_INLINE static Reg min(Reg a, Reg b) { return _mm512_min_pd(a, b); }
  ETALON_INLINE static Reg copy_sign(Reg size, Reg sign) {
    const Reg bit = _mm512_set1_pd(-0.0);
    return _mm512_or_pd(_mm512_andnot_pd(bit, size), _mm512_and_pd(bit, sign));
  }
  ETALON_INLINE static void product(Reg a, Reg b, Reg& p, Reg& e) {
    p = _mm512_mul_pd(a, b);
    e = _mm512_fmsub_pd(a, b, p);
  }
  ETALON_INLINE static Bits bits(Reg a) { return _mm512_castpd_si512(a); }
  ETALON_INLINE static Bits low_bits(Bits b, std::int64_t mask) {
    return _mm512_and_si512(b, _mm512_set1_epi64(mask));
  }
  ETALON_INLINE static Reg entry(const double* table, Bits b) {
    return _mm512_mask_i64gather_pd(_mm512_setzero_pd(), 0xff, b, table, 8);
  }
  ETALON_INLINE static Reg power(Bits b) {
    const Bits e = _mm512_and_si512(_mm512_slli_epi64(b, 46), whole());
    return _mm512_castsi512_pd(_mm512_add_epi64(e, one()));
  }
  ETALON_INLINE static Reg split(Reg x, Reg& m) {
    const Bits from_root = _mm512_sub_epi64(bits(x), _mm512_set1_epi64(0x3fe6a09e667f3bcd));
    const Bits biased = _mm512_srli_epi64(_mm512_add_epi64(from_root, one()), 52);
    m = _mm512_castsi512_pd(
        _mm512_add_epi64(_mm512_sub_epi64(bits(x), _mm512_slli_epi64(biased, 52)), one()));
    return _mm512_sub_pd(_mm512_castsi512_pd(_mm512_or_si512(biased, bits(c(0x1p52)))),
                         c(0x1p52 + 1023));
  }
  ETALON_INLINE static Mask inside(Reg low, Reg x, Reg high) {
    return _mm512_mask_cmp_pd_mask(_mm512_cmp_pd_mask(low, x, _CMP_LE_OQ), x, high, _CMP_LE_OQ);
  }
  ETALON_INLINE static Mask both(Mask a, Mask b) { return static_cast<Mask>(a & b); }
  ETALON_INLINE static Mask open(Mask inside, Reg a, Reg b) {
    return static_cast<Mask>(~_mm512_mask_cmp_pd_mask(inside, a, b, _CMP_EQ_OQ));
  }
  ETALON_INLINE static void take_where_below(Reg x, Reg limit, Reg v, Reg& value, Mask& open) {
    const Mask below = _mm512_cmp_pd_mask(x, limit, _CMP_LT_OQ);
    value = _mm512_mask_blend_pd(below, value, v);
    open = static_cast<Mask>(open & ~below);
  }

 private:
  ETALON_INLINE static Bits whole() {
    return _mm512_set1_epi64(static_cast<std::int64_t>(0xfff0000000000000U));
  }
  ETALON_INLINE static Bits one() { return _mm512_set1_epi64(0x3ff0000000000000); }
};

template <Round kRound>
struct Directed : Doubles {
  static constexpr bool kNearest = false;
  ETALON_INLINE static Reg last(Reg high, Reg low) {
    constexpr int kMode = (kRound == Round::toward_zero ? _MM_FROUND_TO_ZERO
                           : kRound == Round::upward    ? _MM_FROUND_TO_POS_INF
                                                        : _MM_FROUND_TO_NEG_INF) |
                          _MM_FROUND_NO_EXC;
    return _mm512_add_round_pd(high, low, kMode);
  }
};

}  // namespace

void run_f64(F64Function f, Round round, const F64Params& params, double* x, std::int64_t count,
             const F64Fallback& fallback) {
  simd::run_f64_rounded<Doubles, Directed>(f, round, params, x, count, fallback);
}

}  // namespace etalon::avx512
