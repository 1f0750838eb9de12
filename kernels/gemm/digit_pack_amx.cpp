// Operands of the product as strips of 16 rows of digits, with their norms (digit_tile.h): rows
// that lie along k (a left operand's, or turned in registers a right one's), and columns side by
// side.
#include <immintrin.h>

#include "kernels/gemm/digit_cut.h"
#include "kernels/gemm/digit_set_amx.h"
#include "kernels/gemm/digit_vector_amx.h"

namespace etalon::amx {
namespace {

// Per row: squares of the digits of plane d, of z and of r; all 16 rows at once, because a root
// alone takes as long as cutting 64 values.
struct alignas(64) StripSums {
  double digit[4][kDigitRows], norm[kDigitRows], rest[kDigitRows], unit[kDigitRows];
};

void norms_of(const StripSums& sums, std::int64_t k, DigitNorms& norms) {
  // Room for the roundings of the sums of squares, of roots and of what is made of them here and
  // where bounds are: fewer than k + 100 of 2^-53 each.
  const __m512d room = _mm512_set1_pd(1 + 0x1p-10);
  const std::int64_t blocks = (k + kDigitBlock - 1) / kDigitBlock;
  const __m512d join = _mm512_set1_pd((6 + static_cast<double>(blocks)) * 10 * 0x1p-53);
  constexpr double weight[4] = {1, 0x1p8, 0x1p16, 0x1p24};
  for (int at = 0; at < kDigitRows; at += 8) {
    const __m512d unit = _mm512_load_pd(sums.unit + at), rooms = _mm512_mul_pd(room, unit);
    __m512d low_part[5] = {_mm512_setzero_pd()};
    simd::unroll<4>([&](auto d) ETALON_INLINE_LAMBDA {
      low_part[d + 1] =
          _mm512_fmadd_pd(_mm512_set1_pd(weight[d]),
                          _mm512_sqrt_pd(_mm512_load_pd(sums.digit[d] + at)), low_part[d]);
    });
    const __m512d rest = _mm512_mul_pd(_mm512_sqrt_pd(_mm512_load_pd(sums.rest + at)), rooms);
    const __m512d norm =
        _mm512_fmadd_pd(_mm512_sqrt_pd(_mm512_load_pd(sums.norm + at)), rooms, rest);
    _mm512_storeu_pd(norms.unit + at, unit);
    _mm512_storeu_pd(norms.rest + at, rest);
    _mm512_storeu_pd(norms.norm + at, norm);
    _mm512_storeu_pd(norms.rest_join + at, _mm512_mul_pd(_mm512_fmadd_pd(join, norm, rest), room));
    simd::unroll<2>([&](auto dropped) ETALON_INLINE_LAMBDA {
      constexpr int t = 3 + dropped;
      __m512d high = _mm512_setzero_pd(), low = high;
      simd::unroll<t>([&](auto i) ETALON_INLINE_LAMBDA {
        high = _mm512_add_pd(high, _mm512_load_pd(sums.digit[i] + at));
        const __m512d l = _mm512_mul_pd(_mm512_set1_pd(weight[i]), low_part[t - i]);
        low = _mm512_fmadd_pd(l, l, low);
      });
      _mm512_storeu_pd(norms.high[dropped] + at, _mm512_mul_pd(_mm512_sqrt_pd(high), rooms));
      _mm512_storeu_pd(norms.low[dropped] + at, _mm512_mul_pd(_mm512_sqrt_pd(low), rooms));
    });
  }
}

// The largest magnitude's bits; those of NaN and infinity are the largest of all.
std::int32_t largest(const float* x, std::int64_t k) {
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  __m512i m0 = _mm512_setzero_si512(), m1 = m0;
  std::int64_t i = 0;
  for (; i + 32 <= k; i += 32) {
    m0 = _mm512_max_epi32(m0, _mm512_and_si512(_mm512_loadu_si512(x + i), magnitude));
    m1 = _mm512_max_epi32(m1, _mm512_and_si512(_mm512_loadu_si512(x + i + 16), magnitude));
  }
  for (; i < k; i += 16) {
    const auto mask = static_cast<__mmask16>(k - i >= 16 ? 0xffffU : (1U << (k - i)) - 1);
    m1 = _mm512_max_epi32(m1, _mm512_and_si512(_mm512_maskz_loadu_epi32(mask, x + i), magnitude));
  }
  return _mm512_reduce_max_epi32(_mm512_max_epi32(m0, m1));
}

// Steps of k that are cut for all rows before going on, so that what is written stays in the first
// cache until it is turned.
constexpr std::int64_t kPackSteps = 4;

// Columns side by side in memory, as a right operand wants them: four steps of k are a dword of
// each column already, so nothing is turned, and sums of squares are a lane's.
struct LaneSums {
  __m512i square[4], plain[4];
  __m512d norm[2], rest[2], scale[2];
};

// Four rows of 16 columns: a line of each plane.
ETALON_INLINE void digits_across(const __m512* x, LaneSums& sums, __m512i* out) {
  const __m512i bias = _mm512_set1_epi64(0x8080808080);
  __m512i biased[4][2];
  simd::unroll<4>([&](auto j) ETALON_INLINE_LAMBDA {
    const __m512d halves[2] = {_mm512_cvtps_pd(_mm512_castps512_ps256(x[j])),
                               _mm512_cvtps_pd(_mm512_extractf32x8_ps(x[j], 1))};
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const __m512d z = _mm512_mul_pd(halves[h], sums.scale[h]), r = _mm512_reduce_pd(z, 0);
      sums.norm[h] = _mm512_fmadd_pd(z, z, sums.norm[h]);
      sums.rest[h] = _mm512_fmadd_pd(r, r, sums.rest[h]);
      biased[j][h] = _mm512_add_epi64(_mm512_cvtpd_epi64(z), bias);
    });
  });
  const __m512i pairs = _mm512_load_si512(kIndex.pairs),
                fifth = _mm512_load_si512(kIndex.fifth_pairs);
  // Columns 0-3, 4-7, 8-11, 12-15 of planes 0 to 3, a quarter of a vector each; of plane 4 in all.
  __m512i q[4], last[4];
  simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
    const __m512i low = _mm512_permutex2var_epi8(biased[0][h], pairs, biased[1][h]),
                  high = _mm512_permutex2var_epi8(biased[2][h], pairs, biased[3][h]),
                  low5 = _mm512_permutex2var_epi8(biased[0][h], fifth, biased[1][h]),
                  high5 = _mm512_permutex2var_epi8(biased[2][h], fifth, biased[3][h]);
    q[2 * h] = _mm512_unpacklo_epi16(low, high);
    q[2 * h + 1] = _mm512_unpackhi_epi16(low, high);
    last[2 * h] = _mm512_unpacklo_epi16(low5, high5);
    last[2 * h + 1] = _mm512_unpackhi_epi16(low5, high5);
  });
  planes_of<true>(q, last, sums, out);
}

// Strips of one call of pack_columns, read together so that memory is walked in runs of lines.
constexpr int kColumnStrips = kDigitStep / kDigitRows;

}  // namespace

void pack(const float* const* rows, std::int64_t k, bool right, std::uint8_t* planes,
          DigitNorms& norms) {
  RowSums sums[kDigitRows];
  StripSums strip = {};
  __m512d scale[kDigitRows];
  bool cut[kDigitRows], finite[kDigitRows];
  for (int r = 0; r < kDigitRows; ++r) {
    const std::int32_t top = rows[r] == nullptr ? 0 : largest(rows[r], k);
    finite[r] = top < 0x7f800000;
    cut[r] = top != 0 && finite[r];
    strip.unit[r] = cut[r] ? digit_unit(top) : 1;
    scale[r] = _mm512_set1_pd(1 / strip.unit[r]);
    sums[r].norm = sums[r].rest = _mm512_setzero_pd();
    for (int d = 0; d < 4; ++d) sums[r].square[d] = sums[r].plain[d] = _mm512_setzero_si512();
  }
  const auto flush = [&] {
    for (int r = 0; r < kDigitRows; ++r)
      for (int d = 0; d < 4; ++d) {
        strip.digit[d][r] +=
            static_cast<double>(std::int64_t{_mm512_reduce_add_epi32(sums[r].square[d])} -
                                std::int64_t{128} * _mm512_reduce_add_epi32(sums[r].plain[d]));
        sums[r].square[d] = sums[r].plain[d] = _mm512_setzero_si512();
      }
  };
  const std::int64_t steps = (k + kDigitStep - 1) / kDigitStep;
  for (std::int64_t first = 0; first < steps; first += kPackSteps) {
    if (first > 0 && first % (kDigitBlock / kDigitStep) == 0) flush();
    const std::int64_t stop = first + kPackSteps < steps ? first + kPackSteps : steps;
    for (int r = 0; r < kDigitRows; ++r) {
      std::uint8_t* to = planes + first * kStepBytes + r * kDigitStep;
      if (!cut[r]) {
        for (std::int64_t s = first; s < stop; ++s, to += kStepBytes)
          for (int d = 0; d < kDigits; ++d)
            _mm512_store_si512(to + d * kPlaneBytes, _mm512_setzero_si512());
        continue;
      }
      RowSums mine = sums[r];
      for (std::int64_t s = first; s < stop; ++s, to += kStepBytes) {
        __m512i out[kDigits];
        digits_of(rows[r] + s * kDigitStep, k - s * kDigitStep, scale[r], mine, out);
        simd::unroll<kDigits>(
            [&](auto d) ETALON_INLINE_LAMBDA { _mm512_store_si512(to + d * kPlaneBytes, out[d]); });
      }
      sums[r] = mine;
    }
    if (!right) continue;
    for (std::int64_t p = first * kDigits; p < stop * kDigits; ++p) {
      std::uint8_t* plane = planes + p * kPlaneBytes;
      __m512i row[kDigitRows];
      simd::unroll<kDigitRows>(
          [&](auto r) ETALON_INLINE_LAMBDA { row[r] = _mm512_load_si512(plane + r * kDigitStep); });
      transpose_dwords(row);
      simd::unroll<kDigitRows>(
          [&](auto r) ETALON_INLINE_LAMBDA { _mm512_store_si512(plane + r * kDigitStep, row[r]); });
    }
  }
  flush();
  for (int r = 0; r < kDigitRows; ++r) {
    strip.norm[r] = finite[r] ? _mm512_reduce_add_pd(sums[r].norm) : __builtin_nan("");
    strip.rest[r] = _mm512_reduce_add_pd(sums[r].rest);
  }
  norms_of(strip, k, norms);
}

void pack_columns(const float* from, std::int64_t stride, int columns, std::int64_t k,
                  std::uint8_t* planes, DigitNorms* norms) {
  const int strips = (columns + kDigitRows - 1) / kDigitRows;
  const std::int64_t steps = (k + kDigitStep - 1) / kDigitStep;
  __mmask16 there[kColumnStrips] = {};
  __m512i top[kColumnStrips];
  for (int s = 0; s < strips; ++s) {
    const int left = columns - s * kDigitRows;
    there[s] = static_cast<__mmask16>(left >= kDigitRows ? 0xffffU : (1U << left) - 1);
    top[s] = _mm512_setzero_si512();
  }
  const __m512i magnitude = _mm512_set1_epi32(0x7fffffff);
  for (std::int64_t i = 0; i < k; ++i)
    for (int s = 0; s < strips; ++s)
      top[s] = _mm512_max_epi32(
          top[s], _mm512_and_si512(magnitude, _mm512_maskz_loadu_epi32(
                                                  there[s], from + i * stride + s * kDigitRows)));
  StripSums strip[kColumnStrips] = {};
  LaneSums sums[kColumnStrips];
  bool finite[kColumnStrips][kDigitRows];
  __mmask16 cut[kColumnStrips] = {};
  for (int s = 0; s < strips; ++s) {
    alignas(64) std::int32_t tops[kDigitRows];
    alignas(64) double scale[kDigitRows];
    _mm512_store_si512(tops, top[s]);
    for (int r = 0; r < kDigitRows; ++r) {
      finite[s][r] = tops[r] < 0x7f800000;
      const bool cuts = tops[r] != 0 && finite[s][r];
      if (cuts) cut[s] = static_cast<__mmask16>(cut[s] | 1U << r);
      strip[s].unit[r] = cuts ? digit_unit(tops[r]) : 1;
      scale[r] = 1 / strip[s].unit[r];
    }
    for (int h = 0; h < 2; ++h) {
      sums[s].scale[h] = _mm512_load_pd(scale + h * 8);
      sums[s].norm[h] = sums[s].rest[h] = _mm512_setzero_pd();
    }
    for (int d = 0; d < 4; ++d) sums[s].square[d] = sums[s].plain[d] = _mm512_setzero_si512();
  }
  const auto flush = [&](int s) {
    for (int d = 0; d < 4; ++d) {
      alignas(64) std::int32_t square[kDigitRows], plain[kDigitRows];
      _mm512_store_si512(square, sums[s].square[d]);
      _mm512_store_si512(plain, sums[s].plain[d]);
      for (int r = 0; r < kDigitRows; ++r)
        strip[s].digit[d][r] +=
            static_cast<double>(std::int64_t{square[r]} - std::int64_t{128} * plain[r]);
      sums[s].square[d] = sums[s].plain[d] = _mm512_setzero_si512();
    }
  };
  for (std::int64_t step = 0; step < steps; ++step)
    for (int s = 0; s < strips; ++s) {
      if (step > 0 && step % (kDigitBlock / kDigitStep) == 0) flush(s);
      std::uint8_t* to = planes + (s * steps + step) * kStepBytes;
      const float* source = from + step * kDigitStep * stride + s * kDigitRows;
      LaneSums mine = sums[s];
      for (std::int64_t i = step * kDigitStep; i < (step + 1) * kDigitStep;
           i += 4, source += 4 * stride, to += 64) {
        __m512 x[4];
        simd::unroll<4>([&](auto j) ETALON_INLINE_LAMBDA {
          x[j] =
              i + j < k ? _mm512_maskz_loadu_ps(cut[s], source + j * stride) : _mm512_setzero_ps();
        });
        __m512i out[kDigits];
        digits_across(x, mine, out);
        simd::unroll<kDigits>(
            [&](auto d) ETALON_INLINE_LAMBDA { _mm512_store_si512(to + d * kPlaneBytes, out[d]); });
      }
      sums[s] = mine;
    }
  for (int s = 0; s < strips; ++s) {
    flush(s);
    for (int h = 0; h < 2; ++h) {
      _mm512_store_pd(strip[s].norm + h * 8, sums[s].norm[h]);
      _mm512_store_pd(strip[s].rest + h * 8, sums[s].rest[h]);
    }
    for (int r = 0; r < kDigitRows; ++r)
      if (!finite[s][r]) strip[s].norm[r] = __builtin_nan("");
    norms_of(strip[s], k, norms[s]);
  }
}

}  // namespace etalon::amx
