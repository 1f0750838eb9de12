// kernels/gemm/digit_tile.h on AMX int8 tiles; digits are cut with AVX-512 VBMI, their squares
// summed with VNNI.
//
// A product takes 16 cycles to issue and about 52 to finish, so products into one accumulator lie
// three or more apart, and each step of the order changes one operand: 20 tile loads (8 cycles
// each, from L1) hide behind 19 products.
#include <immintrin.h>

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
};
constexpr ByteIndex make_index() {
  ByteIndex index{};
  for (int d = 0; d < 4; ++d)
    for (int q = 0; q < 16; ++q) index.four[d * 16 + q] = static_cast<std::uint8_t>(q * 8 + d);
  for (int p = 0; p < 4; ++p)
    for (int q = 0; q < 16; ++q) index.fifth[p * 16 + q] = static_cast<std::uint8_t>(q * 8 + 4);
  return index;
}
constexpr ByteIndex kIndex = make_index();

struct RowSums {
  __m512i square[4], plain[4];  // int32: sums of (d + 128) d and of d
  __m512d norm, rest;
};

// 64 values of a row: five vectors of digits; sums go on, or are only what rounding left.
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

double cut(const float* from, std::int64_t count, double unit, std::uint8_t* to,
           std::int64_t plane) {
  const __m512d scale = _mm512_set1_pd(1 / unit);
  __m512d rest = _mm512_setzero_pd();
  for (std::int64_t i = 0; i < count; i += kDigitStep, to += kDigitStep) {
    RowSums sums;
    __m512i out[kDigits];
    digits_of<false>(from + i, count - i, scale, sums, out);
    rest = _mm512_add_pd(rest, sums.rest);
    simd::unroll<kDigits>(
        [&](auto d) ETALON_INLINE_LAMBDA { _mm512_storeu_si512(to + d * plane, out[d]); });
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

// --- products
// -------------------------------------------------------------------------------------

// Asks for the next step's lines, eight after each product: where a strip is longer than the first
// cache, products wait for the second one otherwise (1024 terms: 24 ms instead of 19).
ETALON_INLINE void ask(const std::uint8_t*& a, const std::uint8_t*& b) {
  simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
    _mm_prefetch(reinterpret_cast<const char*>(a + i * 64), _MM_HINT_T0);
    _mm_prefetch(reinterpret_cast<const char*>(b + i * 64), _MM_HINT_T0);
  });
  a += 256;
  b += 256;
}

#define ETALON_A(i) _tile_loadd(6, a + (i) * kPlaneBytes, kDigitStep)
#define ETALON_B(j) _tile_loadd(7, b + (j) * kPlaneBytes, kDigitStep)
#define ETALON_P(level)      \
  _tile_dpbssd(level, 6, 7); \
  ask(next_a, next_b)

// Accumulator of level l is tile l - 3, in both.
ETALON_INLINE void nineteen(const std::uint8_t* a, const std::uint8_t* b) {
  const std::uint8_t *next_a = a + kStepBytes, *next_b = b + kStepBytes;
  // clang-format off
  ETALON_A(0); ETALON_B(3); ETALON_P(0);
  ETALON_A(2); ETALON_P(2);  ETALON_A(1); ETALON_P(1);  ETALON_A(3); ETALON_P(3);
  ETALON_B(2); ETALON_P(2);  ETALON_A(2); ETALON_P(1);  ETALON_B(4); ETALON_P(3);
  ETALON_A(1); ETALON_P(2);  ETALON_B(2); ETALON_P(0);  ETALON_A(4); ETALON_P(3);
  ETALON_B(1); ETALON_P(2);  ETALON_A(2); ETALON_P(0);  ETALON_A(3); ETALON_P(1);
  ETALON_B(4); ETALON_P(4);  ETALON_B(0); ETALON_P(0);  ETALON_A(4); ETALON_P(1);
  ETALON_B(3); ETALON_P(4);  ETALON_B(4); ETALON_P(5);  ETALON_A(0); ETALON_P(1);
  // clang-format on
}

ETALON_INLINE void fifteen(const std::uint8_t* a, const std::uint8_t* b) {
  const std::uint8_t *next_a = a + kStepBytes, *next_b = b + kStepBytes;
  // clang-format off
  ETALON_A(0); ETALON_B(4); ETALON_P(1);
  ETALON_A(3); ETALON_P(4);  ETALON_B(2); ETALON_P(2);  ETALON_B(1); ETALON_P(1);
  ETALON_B(3); ETALON_P(3);  ETALON_A(4); ETALON_P(4);  ETALON_A(1); ETALON_P(1);
  ETALON_B(4); ETALON_P(2);  ETALON_A(4); ETALON_P(5);  ETALON_B(0); ETALON_P(1);
  ETALON_B(1); ETALON_P(2);  ETALON_B(2); ETALON_P(3);  ETALON_A(2); ETALON_P(1);
  ETALON_B(3); ETALON_P(2);  ETALON_B(4); ETALON_P(3);
  // clang-format on
}

#undef ETALON_A
#undef ETALON_B
#undef ETALON_P

// Levels of one block of k, [level - t][row][16].
void levels_of(const std::uint8_t* a, const std::uint8_t* b, std::int64_t steps, int dropped,
               std::int32_t* levels) {
  asm volatile("" : : : "memory");  // tile loads do not say that they read memory
  constexpr int stride = kDigitRows * 4, plane = kDigitRows * kDigitRows;
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  if (dropped == 3) {
    _tile_zero(0);
    for (std::int64_t s = 0; s < steps; ++s, a += kStepBytes, b += kStepBytes) nineteen(a, b);
    _tile_stored(0, levels, stride);
  } else {
    for (std::int64_t s = 0; s < steps; ++s, a += kStepBytes, b += kStepBytes) fifteen(a, b);
    levels -= plane;
  }
  _tile_stored(1, levels + plane, stride);
  _tile_stored(2, levels + 2 * plane, stride);
  _tile_stored(3, levels + 3 * plane, stride);
  _tile_stored(4, levels + 4 * plane, stride);
  _tile_stored(5, levels + 5 * plane, stride);
  asm volatile("" : : : "memory");
}

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

// All blocks of k but the last, into `carry`; then `body(levels)` for the last.
template <class Body>
ETALON_INLINE void each_block(const DigitTile& tile, double* carry, const Body& body) {
  alignas(64) std::int32_t levels[kMaxLevels * kDigitRows * kDigitRows];
  constexpr std::int64_t block = kDigitBlock / kDigitStep;
  std::int64_t first = 0;
  for (; tile.steps - first > block; first += block) {
    levels_of(tile.a + first * kStepBytes, tile.b + first * kStepBytes, block, tile.dropped,
              levels);
    for (int at = 0; at < tile.rows * kDigitRows; at += 8) {
      __m512d s = tile.dropped == 3 ? joined<3>(levels, at) : joined<4>(levels, at);
      if (first > 0) s = _mm512_add_pd(s, _mm512_load_pd(carry + at));
      _mm512_store_pd(carry + at, s);
    }
  }
  levels_of(tile.a + first * kStepBytes, tile.b + first * kStepBytes, tile.steps - first,
            tile.dropped, levels);
  body(levels, first > 0);
}

template <int t>
int round_rows(const DigitTile& tile, const std::int32_t* levels, const double* carry,
               std::uint16_t* undecided) {
  alignas(64) float square[kDigitRows * kDigitRows];
  const DigitNorms &a = *tile.a_norms, &b = *tile.b_norms;
  const __m512d scale = _mm512_set1_pd(tile.scale), size = _mm512_abs_pd(scale);
  // Rounding of the product with scale, and of the additions below (exact_decide).
  const __m512d slack = _mm512_set1_pd(tile.scale == 1 ? 0 : 0x1p-52),
                addition = _mm512_set1_pd(0x1p-51);
  const auto there = static_cast<std::uint32_t>((1U << tile.columns) - 1);
  int count = 0;
  for (int r = 0; r < tile.rows; ++r) {
    std::uint32_t decided = 0;
    __m256 rounded[2];
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      const int at = r * kDigitRows + h * 8;
      __m512d s = joined<t>(levels, at);
      if (carry != nullptr) s = _mm512_add_pd(s, _mm512_load_pd(carry + at));
      const __m512d unit = _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8));
      s = _mm512_mul_pd(scale, _mm512_mul_pd(s, unit));
      __m512d e = _mm512_mul_pd(size, bound(a, b, t, r, h));
      e = _mm512_fmadd_pd(slack, _mm512_abs_pd(s), e);
      if (tile.added != nullptr)
        s = _mm512_add_pd(s, _mm512_loadu_pd(tile.added + r * tile.added_row + h * 8));
      e = _mm512_fmadd_pd(addition, _mm512_abs_pd(s), e);
      const __m256 low = _mm512_cvtpd_ps(_mm512_sub_pd(s, e)),
                   high = _mm512_cvtpd_ps(_mm512_add_pd(s, e));
      decided |= std::uint32_t{static_cast<std::uint8_t>(
                     _mm256_cmp_ps_mask(low, high, _CMP_EQ_OQ) &
                     _mm256_cmpeq_epi32_mask(_mm256_castps_si256(low), _mm256_castps_si256(high)))}
                 << (h * 8);
      rounded[h] = _mm512_cvtpd_ps(s);
    });
    const __m512 y = _mm512_insertf32x8(_mm512_castps256_ps512(rounded[0]), rounded[1], 1);
    if (tile.turned)
      _mm512_store_ps(square + r * kDigitRows, y);
    else
      _mm512_mask_storeu_ps(tile.y + r * tile.y_row, static_cast<__mmask16>(there), y);
    undecided[r] = static_cast<std::uint16_t>(~decided & there);
    count += __builtin_popcount(undecided[r]);
  }
  if (tile.turned) {
    __m512i column[kDigitRows];
    simd::unroll<kDigitRows>([&](auto r) ETALON_INLINE_LAMBDA {
      column[r] = _mm512_load_si512(square + r * kDigitRows);
    });
    transpose_dwords(column);
    const auto mask = static_cast<__mmask16>((1U << tile.rows) - 1);
    simd::unroll<kDigitRows>([&](auto i) ETALON_INLINE_LAMBDA {
      if (i < tile.columns)
        _mm512_mask_storeu_ps(tile.y + i * tile.y_row, mask, _mm512_castsi512_ps(column[i]));
    });
  }
  return count;
}

int round(const DigitTile& tile, std::uint16_t* undecided) {
  alignas(64) double carry[kDigitRows * kDigitRows];
  int count = 0;
  each_block(tile, carry, [&](const std::int32_t* levels, bool resume) ETALON_INLINE_LAMBDA {
    const double* from = resume ? carry : nullptr;
    count = tile.dropped == 3 ? round_rows<3>(tile, levels, from, undecided)
                              : round_rows<4>(tile, levels, from, undecided);
  });
  return count;
}

void product(const DigitTile& tile, DigitSums& to) {
  const DigitNorms &a = *tile.a_norms, &b = *tile.b_norms;
  each_block(tile, to.sums, [&](const std::int32_t* levels, bool resume) ETALON_INLINE_LAMBDA {
    for (int r = 0; r < tile.rows; ++r)
      for (int h = 0; h < 2; ++h) {
        const int at = r * kDigitRows + h * 8;
        __m512d s = tile.dropped == 3 ? joined<3>(levels, at) : joined<4>(levels, at);
        if (resume) s = _mm512_add_pd(s, _mm512_load_pd(to.sums + at));
        const __m512d unit =
            _mm512_mul_pd(_mm512_set1_pd(a.unit[r]), _mm512_load_pd(b.unit + h * 8));
        _mm512_store_pd(to.sums + at, _mm512_mul_pd(s, unit));
        _mm512_store_pd(to.bounds + at, bound(a, b, tile.dropped, r, h));
      }
  });
}

}  // namespace

const DigitSet& digits() {
  static const DigitSet set{.pack = pack,
                            .transpose = transpose,
                            .largest = largest,
                            .unit_for = unit_for,
                            .cut = cut,
                            .gather = gather,
                            .begin = begin,
                            .end = end,
                            .round = round,
                            .product = product};
  return set;
}

}  // namespace etalon::amx
