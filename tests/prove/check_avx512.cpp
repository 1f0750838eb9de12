// Eight inputs at a time; the rest, and what has no gain from it, by the scalar text.
#include <immintrin.h>

#include "tests/prove/check.h"

namespace etalon::avx512 {
namespace {

__m512d widened(const float* x) { return _mm512_cvtps_pd(_mm256_loadu_ps(x)); }
// Where both ends round to the served float, bit for bit.
__mmask8 rounds_to(__m512d low, __m512d high, const float* y) {
  const __m256i a = _mm256_castps_si256(_mm512_cvtpd_ps(low)),
                b = _mm256_castps_si256(_mm512_cvtpd_ps(high)),
                served = _mm256_castps_si256(_mm256_loadu_ps(y));
  return _mm256_cmpeq_epi32_mask(a, b) & _mm256_cmpeq_epi32_mask(a, served);
}

bool taylor(const double* p, double error, double lane_error, const float* x, const float* y,
            const double* lanes, std::size_t count) {
  const __m512d e = _mm512_set1_pd(error), l = _mm512_set1_pd(lane_error),
                centre = _mm512_set1_pd(p[0]);
  unsigned holds = 0xff;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512d t = _mm512_sub_pd(widened(x + i), centre);
    __m512d v = _mm512_set1_pd(p[4]);
    for (int k = 3; k >= 1; --k) v = _mm512_add_pd(_mm512_set1_pd(p[k]), _mm512_mul_pd(t, v));
    const __m512d low = _mm512_sub_pd(v, e), high = _mm512_add_pd(v, e), d = widened(y + i);
    const __m512d apart = _mm512_abs_pd(_mm512_sub_pd(_mm512_loadu_pd(lanes + i), v)),
                  room = _mm512_mul_pd(_mm512_add_pd(e, _mm512_mul_pd(l, _mm512_abs_pd(v))),
                                       _mm512_set1_pd(1 + 0x1p-20));
    const __mmask8 outside =
        _mm512_cmp_pd_mask(d, low, _CMP_LT_OQ) | _mm512_cmp_pd_mask(d, high, _CMP_GT_OQ);
    const __mmask8 finite =
        _mm512_cmp_pd_mask(_mm512_abs_pd(d), _mm512_set1_pd(0x1p128), _CMP_LT_OQ);
    holds &= rounds_to(low, high, y + i) & outside & finite &
             _mm512_cmp_pd_mask(apart, room, _CMP_LE_OQ);
  }
  return holds == 0xff &&
         scalar::checks.taylor(p, error, lane_error, x + i, y + i, lanes + i, count - i);
}

bool lemma(double constant, double slope, double end, double slack, bool inside, const float* x,
           const float* y, std::size_t count) {
  const __m512d s = _mm512_set1_pd(slope);
  unsigned holds = 0xff;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512d g = slope != 0 ? _mm512_mul_pd(s, widened(x + i)) : _mm512_set1_pd(constant);
    const __m512d other = _mm512_mul_pd(g, _mm512_set1_pd(end));
    __m512d low = _mm512_min_pd(other, g), high = _mm512_max_pd(other, g);
    if (slack != 0) {
      const __m512d room = _mm512_mul_pd(_mm512_set1_pd(slack), _mm512_abs_pd(g));
      low = _mm512_sub_pd(low, room);
      high = _mm512_add_pd(high, room);
    }
    const __m512d d = widened(y + i);
    const unsigned within =
        _mm512_cmp_pd_mask(d, low, _CMP_GT_OQ) & _mm512_cmp_pd_mask(d, high, _CMP_LT_OQ);
    holds &= rounds_to(low, high, y + i) & (inside ? 0xffU : ~within);
  }
  return holds == 0xff &&
         scalar::checks.lemma(constant, slope, end, slack, inside, x + i, y + i, count - i);
}

bool mirrored(const float* y, const float* other, std::uint32_t flip, std::size_t count) {
  const __m512i nan = _mm512_set1_epi32(0x7fc00000), f = _mm512_set1_epi32(static_cast<int>(flip));
  unsigned holds = 0xffff;
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m512i b = _mm512_loadu_si512(other + i);
    const __m512i image = _mm512_mask_xor_epi32(b, _mm512_cmpneq_epi32_mask(b, nan), b, f);
    holds &= _mm512_cmpeq_epi32_mask(_mm512_loadu_si512(y + i), image);
  }
  return holds == 0xffff && scalar::checks.mirrored(y + i, other + i, flip, count - i);
}

bool scaled(const float* y, const float* other, double factor, std::size_t count) {
  return scalar::checks.scaled(y, other, factor, count);
}

}  // namespace

const ChunkChecks checks{taylor, lemma, mirrored, scaled};

}  // namespace etalon::avx512
