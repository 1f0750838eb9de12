// lanes_f64.h for AVX2.
#include "kernels/activation/lanes_f64_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct Doubles {
  using Reg = __m256d;
  using Bits = __m256i;
  using Mask = __m256d;
  static constexpr int lanes = 4;
  static constexpr bool kNearest = true;
  ETALON_INLINE static Reg last(Reg high, Reg low) { return add(high, low); }
  ETALON_INLINE static Reg load(const double* p) { return _mm256_loadu_pd(p); }
  ETALON_INLINE static void store(double* p, Reg v) { _mm256_storeu_pd(p, v); }
  ETALON_INLINE static std::uint32_t to_bits(Mask m) {
    return static_cast<std::uint32_t>(_mm256_movemask_pd(m));
  }
  ETALON_INLINE static Reg c(double x) { return _mm256_set1_pd(x); }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  // a - b c, rounded once.
  ETALON_INLINE static Reg sub(Reg a, Reg b, Reg c) { return _mm256_fnmadd_pd(b, c, a); }
  ETALON_INLINE static Reg sqrt(Reg a) { return _mm256_sqrt_pd(a); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm256_div_pd(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  ETALON_INLINE static Reg abs(Reg a) { return _mm256_andnot_pd(c(-0.0), a); }
  ETALON_INLINE static Reg min(Reg a, Reg b) { return _mm256_min_pd(a, b); }
  ETALON_INLINE static Reg copy_sign(Reg size, Reg sign) {
    return _mm256_or_pd(abs(size), _mm256_and_pd(c(-0.0), sign));
  }
  ETALON_INLINE static void product(Reg a, Reg b, Reg& p, Reg& e) {
    p = _mm256_mul_pd(a, b);
    e = _mm256_fmsub_pd(a, b, p);
  }
  ETALON_INLINE static Bits bits(Reg a) { return _mm256_castpd_si256(a); }
  ETALON_INLINE static Bits low_bits(Bits b, std::int64_t mask) {
    return _mm256_and_si256(b, _mm256_set1_epi64x(mask));
  }
  ETALON_INLINE static Reg entry(const double* table, Bits b) {
    const Reg all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
    return _mm256_mask_i64gather_pd(_mm256_setzero_pd(), table, b, all, 8);
  }
  ETALON_INLINE static Reg power(Bits b) {
    const Bits e = _mm256_and_si256(_mm256_slli_epi64(b, 46), whole());
    return _mm256_castsi256_pd(_mm256_add_epi64(e, one()));
  }
  ETALON_INLINE static Reg split(Reg x, Reg& m) {
    const Bits from_root = _mm256_sub_epi64(bits(x), _mm256_set1_epi64x(0x3fe6a09e667f3bcd));
    const Bits biased = _mm256_srli_epi64(_mm256_add_epi64(from_root, one()), 52);
    m = _mm256_castsi256_pd(
        _mm256_add_epi64(_mm256_sub_epi64(bits(x), _mm256_slli_epi64(biased, 52)), one()));
    return _mm256_sub_pd(_mm256_castsi256_pd(_mm256_or_si256(biased, bits(c(0x1p52)))),
                         c(0x1p52 + 1023));
  }
  ETALON_INLINE static Mask inside(Reg low, Reg x, Reg high) {
    return _mm256_and_pd(_mm256_cmp_pd(low, x, _CMP_LE_OQ), _mm256_cmp_pd(x, high, _CMP_LE_OQ));
  }
  ETALON_INLINE static Mask both(Mask a, Mask b) { return _mm256_and_pd(a, b); }
  ETALON_INLINE static Mask open(Mask inside, Reg a, Reg b) {
    const Mask all = _mm256_castsi256_pd(_mm256_set1_epi64x(-1));
    return _mm256_andnot_pd(_mm256_and_pd(inside, _mm256_cmp_pd(a, b, _CMP_EQ_OQ)), all);
  }
  ETALON_INLINE static void take_where_below(Reg x, Reg limit, Reg v, Reg& value, Mask& open) {
    const Mask below = _mm256_cmp_pd(x, limit, _CMP_LT_OQ);
    value = _mm256_blendv_pd(value, v, below);
    open = _mm256_andnot_pd(below, open);
  }

 private:
  ETALON_INLINE static Bits whole() {
    return _mm256_set1_epi64x(static_cast<std::int64_t>(0xfff0000000000000U));
  }
  ETALON_INLINE static Bits one() { return _mm256_set1_epi64x(0x3ff0000000000000); }
};

// The sum to nearest and what it lacks, exactly (|high| >= |low|); where that lies on the other
// side, the neighbour: sums are normal numbers, whose neighbours' bits are one more or less.
template <Round kRound>
struct Directed : Doubles {
  static constexpr bool kNearest = false;
  ETALON_INLINE static Reg last(Reg high, Reg low) {
    const Reg sum = add(high, low), lacks = sub(low, sub(sum, high)), zero = _mm256_setzero_pd();
    const Reg sign = _mm256_and_pd(c(-0.0), sum);
    // Outward: where what lacks has this sign, the size grows; else it shrinks.
    const Reg outward = _mm256_xor_pd(lacks, sign);
    const Bits one = _mm256_set1_epi64x(1);
    Bits moved = bits(sum);
    if constexpr (kRound == Round::toward_zero) {
      const Bits shrinks = bits(_mm256_cmp_pd(outward, zero, _CMP_LT_OQ));
      moved = _mm256_sub_epi64(moved, _mm256_and_si256(shrinks, one));
    } else {
      constexpr int kWanted = kRound == Round::upward ? _CMP_GT_OQ : _CMP_LT_OQ;
      const Bits moves = bits(_mm256_cmp_pd(lacks, zero, kWanted));
      const Bits grows = bits(_mm256_cmp_pd(outward, zero, _CMP_GT_OQ));
      const Bits step = _mm256_blendv_epi8(_mm256_set1_epi64x(-1), one, grows);
      moved = _mm256_add_epi64(moved, _mm256_and_si256(moves, step));
    }
    return _mm256_castsi256_pd(moved);
  }
};

}  // namespace

void run_f64(F64Function f, Round round, const F64Params& params, double* x, std::int64_t count,
             const F64Fallback& fallback) {
  simd::run_f64_rounded<Doubles, Directed>(f, round, params, x, count, fallback);
}

}  // namespace etalon::avx2
