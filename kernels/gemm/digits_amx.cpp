// kernels/gemm/digit_tile.h on AMX int8 tiles; digits are cut with AVX-512 VBMI, their squares
// summed with VNNI.
//
// A product takes 16 cycles to issue and about 52 to finish, so products into one accumulator lie
// three or more apart, and each step of the order changes one operand: 20 tile loads (8 cycles
// each, from L1) hide behind 19 products.
#include <immintrin.h>

#include <cstdlib>
#include <cstring>

#include "kernels/gemm/digit_tile.h"
#include "kernels/simd/unroll.h"

namespace etalon::amx {
namespace {

struct alignas(64) TileConfig {
  std::uint8_t palette = 1, start_row = 0, reserved[14] = {};
  std::uint16_t bytes[16] = {};
  std::uint8_t rows[16] = {};
};

void begin(int rows) {
  TileConfig config;
  for (int t = 0; t < 8; ++t) {
    config.bytes[t] = kDigitStep;
    config.rows[t] = static_cast<std::uint8_t>(t == 7 ? kDigitRows : rows);
  }
  asm volatile("ldtilecfg %0" : : "m"(config));
}

void end() { _tile_release(); }

// --- digits
// ---------------------------------------------------------------------------------------

// Bytes d and d + 8 of every quadword, for the pair of vectors that vpermi2b reads.
struct alignas(64) ByteIndex {
  std::uint8_t four[64], fifth[64];
  std::uint8_t pairs[64], fifth_pairs[64];  // byte d of quadword q of either, side by side
};
constexpr ByteIndex make_index() {
  ByteIndex index{};
  for (int d = 0; d < 4; ++d)
    for (int q = 0; q < 16; ++q) index.four[d * 16 + q] = static_cast<std::uint8_t>(q * 8 + d);
  for (int p = 0; p < 4; ++p)
    for (int q = 0; q < 16; ++q) index.fifth[p * 16 + q] = static_cast<std::uint8_t>(q * 8 + 4);
  for (int d = 0; d < 4; ++d)
    for (int q = 0; q < 8; ++q)
      for (int j = 0; j < 2; ++j) {
        index.pairs[d * 16 + q * 2 + j] = static_cast<std::uint8_t>(j * 64 + q * 8 + d);
        index.fifth_pairs[d * 16 + q * 2 + j] = static_cast<std::uint8_t>(j * 64 + q * 8 + 4);
      }
  return index;
}
constexpr ByteIndex kIndex = make_index();

struct RowSums {
  __m512i square[4], plain[4];  // int32: sums of (d + 128) d and of d
  __m512d norm, rest;
};

// Up to 64 values of a row: five vectors of digits; sums go on, or are only what rounding left.
template <bool resume = true>
ETALON_INLINE void digits_of(const float* from, std::int64_t left, __m512d scale, RowSums& sums,
                             __m512i* out) {
  const __m512i bias = _mm512_set1_epi64(0x8080808080);
  __m512i biased[8];
  simd::unroll<4>([&](auto v) ETALON_INLINE_LAMBDA {
    const std::int64_t there = left - v * 16;
    const __m512 x = there >= 16  ? _mm512_loadu_ps(from + v * 16)
                     : there <= 0 ? _mm512_setzero_ps()
                                  : _mm512_maskz_loadu_ps(static_cast<__mmask16>((1U << there) - 1),
                                                          from + v * 16);
    const __m512d halves[2] = {_mm512_mul_pd(_mm512_cvtps_pd(_mm512_castps512_ps256(x)), scale),
                               _mm512_mul_pd(_mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)), scale)};
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const __m512d z = halves[h], r = _mm512_reduce_pd(z, 0);
      if constexpr (resume) {
        sums.norm = _mm512_fmadd_pd(z, z, sums.norm);
        sums.rest = _mm512_fmadd_pd(r, r, sums.rest);
      } else {
        sums.rest = v + h == 0 ? _mm512_mul_pd(r, r) : _mm512_fmadd_pd(r, r, sums.rest);
      }
      biased[v * 2 + h] = _mm512_add_epi64(_mm512_cvtpd_epi64(z), bias);
    });
  });
  const __m512i four = _mm512_load_si512(kIndex.four), fifth = _mm512_load_si512(kIndex.fifth);
  __m512i p[4], last[4];
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    p[i] = _mm512_permutex2var_epi8(biased[2 * i], four, biased[2 * i + 1]);
    last[i] = _mm512_permutex2var_epi8(biased[2 * i], fifth, biased[2 * i + 1]);
  });
  const __m512i low01 = _mm512_shuffle_i32x4(p[0], p[1], 0x44),
                low23 = _mm512_shuffle_i32x4(p[2], p[3], 0x44),
                high01 = _mm512_shuffle_i32x4(p[0], p[1], 0xee),
                high23 = _mm512_shuffle_i32x4(p[2], p[3], 0xee);
  __m512i u[5];
  u[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
  u[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
  u[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
  u[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  u[4] = _mm512_mask_blend_epi64(0xf0, _mm512_mask_blend_epi64(0x0c, last[0], last[1]),
                                 _mm512_mask_blend_epi64(0xc0, last[2], last[3]));
  const __m512i half = _mm512_set1_epi8(-128), ones = _mm512_set1_epi8(1);
  out[4] = _mm512_xor_si512(u[4], half);
  simd::unroll<4>([&](auto d) ETALON_INLINE_LAMBDA {
    out[d] = _mm512_xor_si512(u[d], half);
    if constexpr (resume) {
      sums.square[d] = _mm512_dpbusd_epi32(sums.square[d], u[d], out[d]);
      sums.plain[d] = _mm512_dpbusd_epi32(sums.plain[d], ones, out[d]);
    }
  });
}

// 16x16 dwords.
ETALON_INLINE void transpose_dwords(__m512i* r) {
  __m512i t[16];
  simd::unroll<8>([&](auto n) ETALON_INLINE_LAMBDA {
    constexpr int i = n * 2;
    t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
    t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
  });
  simd::unroll<4>([&](auto n) ETALON_INLINE_LAMBDA {
    constexpr int i = n * 4;
    r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
    r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
    r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
    r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
  });
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
    t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
    t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
    t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
  });
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
    r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    r[i + 4] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0x88);
    r[i + 12] = _mm512_shuffle_i32x4(t[i + 4], t[i + 12], 0xdd);
  });
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

double power(int e) {
  const std::uint64_t bits = static_cast<std::uint64_t>(e + 1023) << 52;
  double d;
  std::memcpy(&d, &bits, sizeof d);
  return d;
}

// A largest magnitude below 2^e * 1.9688 becomes less than 0.99 * 2^39; any other is scaled by one
// power less.
double unit_for(std::int32_t top) {
  int e = (top >> 23) - 127;
  if (e == -127) e = 31 - __builtin_clz(static_cast<unsigned>(top)) - 149;
  if (top >> 23 == 0 || (top & 0x7fffff) >= 0x7c0000) ++e;
  return power(e - 38);
}

// Per row: squares of the digits of plane d, of z and of r; all 16 rows at once, because a root
// alone takes as long as cutting 64 values.
struct alignas(64) StripSums {
  double digit[4][kDigitRows], norm[kDigitRows], rest[kDigitRows], unit[kDigitRows];
};

void norms_of(const StripSums& sums, std::int64_t k, DigitNorms& norms) {
  // Room for the roundings of the sums of squares, of roots and of what is made of them here and
  // where bounds are: fewer than k + 100 of 2^-53 each.
  const __m512d room = _mm512_set1_pd(1 + 0x1p-10);
  const auto blocks = static_cast<double>((k + kDigitBlock - 1) / kDigitBlock);
  const __m512d join = _mm512_set1_pd((6 + blocks) * 10 * 0x1p-53);
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

// Steps of k that are cut for all rows before going on, so that what is written stays in the first
// cache until it is turned.
constexpr std::int64_t kPackSteps = 4;

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
    strip.unit[r] = cut[r] ? unit_for(top) : 1;
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
  const __m512i low01 = _mm512_shuffle_i32x4(q[0], q[1], 0x44),
                low23 = _mm512_shuffle_i32x4(q[2], q[3], 0x44),
                high01 = _mm512_shuffle_i32x4(q[0], q[1], 0xee),
                high23 = _mm512_shuffle_i32x4(q[2], q[3], 0xee);
  __m512i u[5];
  u[0] = _mm512_shuffle_i32x4(low01, low23, 0x88);
  u[1] = _mm512_shuffle_i32x4(low01, low23, 0xdd);
  u[2] = _mm512_shuffle_i32x4(high01, high23, 0x88);
  u[3] = _mm512_shuffle_i32x4(high01, high23, 0xdd);
  u[4] = _mm512_mask_blend_epi64(0xf0, _mm512_mask_blend_epi64(0x0c, last[0], last[1]),
                                 _mm512_mask_blend_epi64(0xc0, last[2], last[3]));
  const __m512i half = _mm512_set1_epi8(-128), ones = _mm512_set1_epi8(1);
  out[4] = _mm512_xor_si512(u[4], half);
  simd::unroll<4>([&](auto d) ETALON_INLINE_LAMBDA {
    out[d] = _mm512_xor_si512(u[d], half);
    sums.square[d] = _mm512_dpbusd_epi32(sums.square[d], u[d], out[d]);
    sums.plain[d] = _mm512_dpbusd_epi32(sums.plain[d], ones, out[d]);
  });
}

// Strips of one call of pack_columns, read together so that memory is walked in runs of lines.
constexpr int kColumnStrips = kDigitStep / kDigitRows;

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
      strip[s].unit[r] = cuts ? unit_for(tops[r]) : 1;
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

double cut_turned(const DigitBlock& block, double unit, std::uint8_t* to, std::int64_t pitch,
                  std::int64_t plane) {
  // Pixels that follow one another without a gap are one run of values, so that vectors are full.
  const bool run = pitch == block.channels;
  const int apart = run ? block.channels : kDigitStep;
  alignas(64) float turned[kDigitRows * kDigitStep + kDigitRows];
  const auto there = static_cast<__mmask16>((1U << block.pixels) - 1);
  // Downwards, because whole vectors are written: what spills into the next pixel is written after.
  for (int c = (block.channels - 1) / 16 * 16; c >= 0; c -= 16) {
    __m512i r[16];
    simd::unroll<16>([&](auto i) ETALON_INLINE_LAMBDA {
      r[i] = c + i < block.channels
                 ? _mm512_maskz_loadu_epi32(there, block.from + (c + i) * block.stride)
                 : _mm512_setzero_si512();
    });
    transpose_dwords(r);
    simd::unroll<16>(
        [&](auto i) ETALON_INLINE_LAMBDA { _mm512_storeu_si512(turned + i * apart + c, r[i]); });
  }
  const __m512d scale = _mm512_set1_pd(1 / unit);
  __m512d rest = _mm512_setzero_pd();
  const auto cut = [&](const float* from, int count, std::uint8_t* dst) ETALON_INLINE_LAMBDA {
    RowSums sums;
    __m512i out[kDigits];
    digits_of<false>(from, count, scale, sums, out);
    rest = _mm512_add_pd(rest, sums.rest);
    const __mmask64 bytes = ~0ULL >> (count < kDigitStep ? kDigitStep - count : 0);
    simd::unroll<kDigits>([&](auto d) ETALON_INLINE_LAMBDA {
      _mm512_mask_storeu_epi8(dst + d * plane, bytes, out[d]);
    });
  };
  if (run) {
    const int values = block.pixels * block.channels;
    for (int i = 0; i < values; i += kDigitStep) cut(turned + i, values - i, to + i);
  } else {
    for (int i = 0; i < block.pixels; ++i, to += pitch)
      cut(turned + i * kDigitStep, block.channels, to);
  }
  return _mm512_reduce_add_pd(rest);
}

void gather(const std::uint8_t* from, std::int64_t plane, const std::int64_t* offset, int runs,
            std::int64_t bytes, std::uint8_t* to) {
  std::int64_t at = 0;  // in the step
  for (int i = 0; i < runs; ++i) {
    const std::uint8_t* source = from + offset[i];
    for (std::int64_t left = bytes; left > 0;) {
      const std::int64_t room = kDigitStep - at, n = left < room ? left : room;
      const __mmask64 mask = ~0ULL >> (64 - n);
      simd::unroll<kDigits>([&](auto d) ETALON_INLINE_LAMBDA {
        _mm512_mask_storeu_epi8(to + d * kPlaneBytes + at, mask,
                                _mm512_maskz_loadu_epi8(mask, source + d * plane));
      });
      left -= n;
      source += n;
      at += n;
      if (at == kDigitStep) {
        at = 0;
        to += kStepBytes;
      }
    }
  }
}

void transpose(const float* from, std::int64_t from_stride, int lanes, std::int64_t k, float* to,
               std::int64_t to_stride) {
  const auto mask = static_cast<__mmask16>((1U << lanes) - 1);
  for (std::int64_t j = 0; j < k; j += 16) {
    __m512i r[16];
    simd::unroll<16>([&](auto i) ETALON_INLINE_LAMBDA {
      r[i] = j + i < k ? _mm512_maskz_loadu_epi32(mask, from + (j + i) * from_stride)
                       : _mm512_setzero_si512();
    });
    transpose_dwords(r);
    simd::unroll<16>(
        [&](auto i) ETALON_INLINE_LAMBDA { _mm512_storeu_si512(to + i * to_stride + j, r[i]); });
  }
}

// --- rounding
// -------------------------------------------------------------------------------------

// Levels of one block of k as f64 sums, eight outputs at a time; see digit_tile.h.
template <int t>
ETALON_INLINE __m512d joined(const std::int32_t* levels, int at) {
  constexpr int count = 9 - t, plane = kDigitRows * kDigitRows;
  constexpr double weight[9] = {0x1p0,  0x1p8,  0x1p16, 0x1p24, 0x1p32,
                                0x1p40, 0x1p48, 0x1p56, 0x1p64};
  const auto level = [&](int l) ETALON_INLINE_LAMBDA {
    return _mm512_cvtepi32_pd(
        _mm256_load_si256(reinterpret_cast<const __m256i*>(levels + l * plane + at)));
  };
  __m512d s = _mm512_mul_pd(level(0), _mm512_set1_pd(weight[t]));
  simd::unroll<count - 1>([&](auto l) ETALON_INLINE_LAMBDA {
    s = _mm512_fmadd_pd(level(l + 1), _mm512_set1_pd(weight[t + l + 1]), s);
  });
  return s;
}

ETALON_INLINE __m512d bound(const DigitNorms& a, const DigitNorms& b, int dropped, int r, int h) {
  __m512d e = _mm512_mul_pd(_mm512_set1_pd(a.high[dropped - 3][r]),
                            _mm512_load_pd(b.low[dropped - 3] + h * 8));
  e = _mm512_fmadd_pd(_mm512_set1_pd(a.norm[r]), _mm512_load_pd(b.rest_join + h * 8), e);
  return _mm512_fmadd_pd(_mm512_set1_pd(a.rest[r]), _mm512_load_pd(b.norm + h * 8), e);
}

// Joins and rounds rows [p.row, stop) of the tile that waits.
template <int t>
ETALON_INLINE void round_rows(DigitPipe& p, int stop) {
  const DigitTile& tile = p.tile[1 - p.turn];
  const std::int32_t* levels = p.levels[1 - p.turn];
  const double* carry = p.carried[1 - p.turn] ? p.carry[1 - p.turn] : nullptr;
  const DigitNorms &a = *tile.a_norms, &b = *tile.b_norms;
  const __m512d size = _mm512_set1_pd(tile.scale < 0 ? -tile.scale : tile.scale);
  // Rounding of the product with scale, and of the additions below (exact_decide).
  const __m512d slack = _mm512_set1_pd(0x1p-52), addition = _mm512_set1_pd(0x1p-51);
  const auto there = static_cast<std::uint32_t>((1U << tile.columns) - 1);
  for (int r = p.row; r < stop; ++r) {
    __m256 lows[2], highs[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const int at = r * kDigitRows + h * 8;
      __m512d s = joined<t>(levels, at);
      if (carry != nullptr) s = _mm512_add_pd(s, _mm512_load_pd(carry + at));
      s = _mm512_mul_pd(s,
                        _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8)));
      __m512d e = bound(a, b, t, r, h);
      if (tile.scale != 1) {
        s = _mm512_mul_pd(_mm512_set1_pd(tile.scale), s);
        e = _mm512_fmadd_pd(slack, _mm512_abs_pd(s), _mm512_mul_pd(size, e));
      }
      if (tile.added != nullptr)
        s = _mm512_add_pd(s, _mm512_loadu_pd(tile.added + r * tile.added_row + h * 8));
      e = _mm512_fmadd_pd(addition, _mm512_abs_pd(s), e);
      lows[h] = _mm512_cvtpd_ps(_mm512_sub_pd(s, e));
      highs[h] = _mm512_cvtpd_ps(_mm512_add_pd(s, e));
    });
    // What is decided is either end.
    const __m512 low = _mm512_insertf32x8(_mm512_castps256_ps512(lows[0]), lows[1], 1),
                 high = _mm512_insertf32x8(_mm512_castps256_ps512(highs[0]), highs[1], 1);
    const std::uint32_t decided =
        _mm512_cmp_ps_mask(low, high, _CMP_EQ_OQ) &
        _mm512_cmpeq_epi32_mask(_mm512_castps_si512(low), _mm512_castps_si512(high));
    if (tile.runs != nullptr)
      _mm512_store_ps(p.square + r * kDigitRows, low);
    else
      _mm512_mask_storeu_ps(tile.y + r * tile.y_row, static_cast<__mmask16>(there), low);
    p.undecided[r] = static_cast<std::uint16_t>(~decided & there);
  }
  p.row = stop;
}

// Up to `rows` further rows of the tile that waits.
__attribute__((noinline)) void advance(DigitPipe& p, int rows) {
  const DigitTile& tile = p.tile[1 - p.turn];
  const int stop = p.row + rows < tile.rows ? p.row + rows : tile.rows;
  if (tile.dropped == 3)
    round_rows<3>(p, stop);
  else
    round_rows<4>(p, stop);
}

// The rest of the tile that waits.
void complete(DigitPipe& p) {
  const DigitTile& tile = p.tile[1 - p.turn];
  if (p.row < tile.rows) advance(p, kDigitRows);
  p.open = 0;
  if (tile.runs != nullptr) {
    __m512i column[kDigitRows];
    simd::unroll<kDigitRows>([&](auto r) ETALON_INLINE_LAMBDA {
      column[r] = _mm512_load_si512(p.square + r * kDigitRows);
    });
    transpose_dwords(column);
    std::uint32_t rows = 0;
    for (int n = 0; n < tile.run_count; ++n) {
      const DigitRun& run = tile.runs[n];
      const std::uint32_t lanes = ((1U << run.count) - 1) << run.first;
      rows |= lanes;
      float* y = tile.y + run.at - run.first;
      simd::unroll<kDigitRows>([&](auto i) ETALON_INLINE_LAMBDA {
        if (i < tile.columns)
          _mm512_mask_storeu_ps(y + i * tile.y_row, static_cast<__mmask16>(lanes),
                                _mm512_castsi512_ps(column[i]));
      });
    }
    for (int r = 0; r < tile.rows; ++r)
      if ((rows >> r & 1) == 0) p.undecided[r] = 0;
  }
  for (int r = 0; r < tile.rows; ++r) p.open += __builtin_popcount(p.undecided[r]);
  p.done = tile;
  p.ready = true;
}

// --- products
// -------------------------------------------------------------------------------------

// Asks for the next step's lines after each product: where a strip is longer than the first cache,
// products wait for the second one otherwise (1024 terms: 24 ms instead of 19). Rows that many
// tiles share are not asked for.
template <bool packed>
ETALON_INLINE void ask(const std::uint8_t*& a, const std::uint8_t*& b) {
  constexpr int lines = packed ? 4 : 6;
  simd::unroll<lines>([&](auto i) ETALON_INLINE_LAMBDA {
    if constexpr (packed) _mm_prefetch(reinterpret_cast<const char*>(a + i * 64), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + i * 64), _MM_HINT_T0);
  });
  if constexpr (packed) a += lines * 64;
  b += lines * 64;
}

#define ETALON_A(i) _tile_loadd(6, a + (i) * a_plane, a_row)
#define ETALON_B(j) _tile_loadd(7, b + (j) * kPlaneBytes, kDigitStep)
#define ETALON_P(level)      \
  _tile_dpbssd(level, 6, 7); \
  ask<packed>(next_a, next_b)

// Accumulator of level l is tile l - 3, in both. `aside` is called three times.
template <bool packed, class Aside>
ETALON_INLINE void nineteen(const std::uint8_t* a, std::int64_t a_plane, std::int64_t a_row,
                            const std::uint8_t* b, const Aside& aside) {
  const std::uint8_t *next_a = a + kStepBytes, *next_b = b + kStepBytes;
  // clang-format off
  ETALON_A(0); ETALON_B(3); ETALON_P(0);
  ETALON_A(2); ETALON_P(2);  ETALON_A(1); ETALON_P(1);  ETALON_A(3); ETALON_P(3);
  ETALON_B(2); ETALON_P(2);  ETALON_A(2); ETALON_P(1);  ETALON_B(4); ETALON_P(3);
  aside();
  ETALON_A(1); ETALON_P(2);  ETALON_B(2); ETALON_P(0);  ETALON_A(4); ETALON_P(3);
  ETALON_B(1); ETALON_P(2);  ETALON_A(2); ETALON_P(0);  ETALON_A(3); ETALON_P(1);
  aside();
  ETALON_B(4); ETALON_P(4);  ETALON_B(0); ETALON_P(0);  ETALON_A(4); ETALON_P(1);
  ETALON_B(3); ETALON_P(4);  ETALON_B(4); ETALON_P(5);  ETALON_A(0); ETALON_P(1);
  aside();
  // clang-format on
}

template <bool packed, class Aside>
ETALON_INLINE void fifteen(const std::uint8_t* a, std::int64_t a_plane, std::int64_t a_row,
                           const std::uint8_t* b, const Aside& aside) {
  const std::uint8_t *next_a = a + kStepBytes, *next_b = b + kStepBytes;
  // clang-format off
  ETALON_A(0); ETALON_B(4); ETALON_P(1);
  ETALON_A(3); ETALON_P(4);  ETALON_B(2); ETALON_P(2);  ETALON_B(1); ETALON_P(1);
  aside();
  ETALON_B(3); ETALON_P(3);  ETALON_A(4); ETALON_P(4);  ETALON_A(1); ETALON_P(1);
  ETALON_B(4); ETALON_P(2);  ETALON_A(4); ETALON_P(5);  ETALON_B(0); ETALON_P(1);
  aside();
  ETALON_B(1); ETALON_P(2);  ETALON_B(2); ETALON_P(3);  ETALON_A(2); ETALON_P(1);
  ETALON_B(3); ETALON_P(2);  ETALON_B(4); ETALON_P(3);
  aside();
  // clang-format on
}

#undef ETALON_A
#undef ETALON_B
#undef ETALON_P

// Levels of steps [first, first + steps), [level - t][row][16].
template <bool packed, class Aside>
ETALON_INLINE void levels_of(const DigitTile& tile, std::int64_t first, std::int64_t steps,
                             std::int32_t* levels, const Aside& aside) {
  asm volatile("" : : : "memory");  // tile loads do not say that they read memory
  constexpr int stride = kDigitRows * 4, plane = kDigitRows * kDigitRows;
  const std::int64_t a_plane = packed ? kPlaneBytes : tile.a_plane,
                     a_row = packed ? kDigitStep : tile.a_row;
  const std::uint8_t *a = tile.a + first * kStepBytes, *b = tile.b + first * kStepBytes;
  const std::int64_t* at = packed ? nullptr : tile.a_steps + first;
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  if (tile.dropped == 3) {
    _tile_zero(0);
    for (std::int64_t s = 0; s < steps; ++s, a += kStepBytes, b += kStepBytes)
      nineteen<packed>(packed ? a : tile.a + at[s], a_plane, a_row, b, aside);
    _tile_stored(0, levels, stride);
  } else {
    for (std::int64_t s = 0; s < steps; ++s, a += kStepBytes, b += kStepBytes)
      fifteen<packed>(packed ? a : tile.a + at[s], a_plane, a_row, b, aside);
    levels -= plane;
  }
  _tile_stored(1, levels + plane, stride);
  _tile_stored(2, levels + 2 * plane, stride);
  _tile_stored(3, levels + 3 * plane, stride);
  _tile_stored(4, levels + 4 * plane, stride);
  _tile_stored(5, levels + 5 * plane, stride);
  asm volatile("" : : : "memory");
}

// All blocks of k: those before the last into `carry`, the last into `levels`. Returns whether
// there is a carry.
template <bool packed, class Aside>
ETALON_INLINE bool all_levels(const DigitTile& tile, std::int32_t* levels, double* carry,
                              const Aside& aside) {
  constexpr std::int64_t block = kDigitBlock / kDigitStep;
  std::int64_t first = 0;
  for (; tile.steps - first > block; first += block) {
    levels_of<packed>(tile, first, block, levels, aside);
    for (int at = 0; at < tile.rows * kDigitRows; at += 8) {
      __m512d s = tile.dropped == 3 ? joined<3>(levels, at) : joined<4>(levels, at);
      if (first > 0) s = _mm512_add_pd(s, _mm512_load_pd(carry + at));
      _mm512_store_pd(carry + at, s);
    }
  }
  levels_of<packed>(tile, first, tile.steps - first, levels, aside);
  return first > 0;
}

template <bool packed>
void multiply(DigitPipe& p) {
  const DigitTile& tile = p.tile[p.turn];
  std::int32_t* levels = p.levels[p.turn];
  double* carry = p.carry[p.turn];
  static const int mode = getenv("RXM") ? atoi(getenv("RXM")) : 0;
  if (p.full && mode != 1) {
    const int rows = p.tile[1 - p.turn].rows;
    const auto calls = static_cast<int>(tile.steps < kDigitRows ? 3 * tile.steps : 3 * kDigitRows);
    const int each = (rows + calls - 1) / calls;
    p.carried[p.turn] = all_levels<packed>(tile, levels, carry, [&]() ETALON_INLINE_LAMBDA {
      if (p.row < rows) advance(p, each);
    });
  } else {
    p.carried[p.turn] = all_levels<packed>(tile, levels, carry, []() ETALON_INLINE_LAMBDA {});
  }
}

void next(DigitPipe& p, const DigitTile* tile) {
  p.ready = false;
  p.row = 0;
  if (tile != nullptr) {
    p.tile[p.turn] = *tile;
    if (tile->a_steps == nullptr)
      multiply<true>(p);
    else
      multiply<false>(p);
  }
  if (p.full) complete(p);
  p.full = tile != nullptr;
  p.turn = 1 - p.turn;
}

void product(const DigitTile& tile, DigitSums& to) {
  alignas(64) std::int32_t levels[kMaxLevels * kDigitRows * kDigitRows];
  const DigitNorms &a = *tile.a_norms, &b = *tile.b_norms;
  const auto alone = []() ETALON_INLINE_LAMBDA {};
  const bool resume = tile.a_steps == nullptr ? all_levels<true>(tile, levels, to.sums, alone)
                                              : all_levels<false>(tile, levels, to.sums, alone);
  for (int r = 0; r < tile.rows; ++r)
    for (int h = 0; h < 2; ++h) {
      const int at = r * kDigitRows + h * 8;
      __m512d s = tile.dropped == 3 ? joined<3>(levels, at) : joined<4>(levels, at);
      if (resume) s = _mm512_add_pd(s, _mm512_load_pd(to.sums + at));
      const __m512d unit = _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8));
      _mm512_store_pd(to.sums + at, _mm512_mul_pd(s, unit));
      _mm512_store_pd(to.bounds + at, bound(a, b, tile.dropped, r, h));
    }
}

}  // namespace

const DigitSet& digits() {
  static const DigitSet set{.pack = pack,
                            .pack_columns = pack_columns,
                            .transpose = transpose,
                            .largest = largest,
                            .unit_for = unit_for,
                            .cut_turned = cut_turned,
                            .gather = gather,
                            .begin = begin,
                            .end = end,
                            .next = next,
                            .product = product};
  return set;
}

}  // namespace etalon::amx
