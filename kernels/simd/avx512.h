// AVX-512 as the vector types that kernel templates are written over. Included only by files that
// are compiled for AVX-512; everything is inlined and in a namespace of its own.
//
// A vector type V has: Scalar, Reg, Mask, lanes; zero, load, set1, store, first(n) for the mask of
// the first n lanes; arithmetic with one IEEE rounding each; canonical(x), which replaces every NaN
// by the format's one canonical quiet NaN (x86's own default NaN has the sign bit set).
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/simd/unroll.h"

namespace etalon::avx512 {

struct F32 {
  using Scalar = float;
  using Reg = __m512;
  using Mask = __mmask16;
  static constexpr int lanes = 16;
  static constexpr int registers = 32;

  ETALON_INLINE static Reg zero() { return _mm512_setzero_ps(); }
  ETALON_INLINE static Reg set1(float v) { return _mm512_set1_ps(v); }
  ETALON_INLINE static Mask first(int n) {
    return static_cast<Mask>(n >= lanes ? 0xffffU : (1U << n) - 1U);
  }
  ETALON_INLINE static Mask from_bits(std::uint32_t bits) { return static_cast<Mask>(bits); }
  ETALON_INLINE static std::uint32_t to_bits(Mask m) { return m; }
  ETALON_INLINE static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  ETALON_INLINE static Reg load(const float* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
  ETALON_INLINE static Reg load_into(Reg old, const float* p, Mask m) {
    return _mm512_mask_loadu_ps(old, m, p);
  }
  ETALON_INLINE static void store(float* p, Reg v) { _mm512_storeu_ps(p, v); }
  ETALON_INLINE static void store(float* p, Reg v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  ETALON_INLINE static void fma_onto(Reg& acc, Reg a, Reg b) { acc = fma(a, b, acc); }
  // acc = fma(*a, b, acc) as one instruction that broadcasts as it loads.
  ETALON_INLINE static void fma_broadcast(Reg& acc, const float* a, Reg b) {
    asm("vfmadd231ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*a));
  }
  // Lanes outside the mask keep c.
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return _mm512_mask3_fmadd_ps(a, b, c, m);
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm512_mask_blend_ps(m, otherwise, then);
  }
  // x where it is larger or NaN, but never in the place of a NaN.
  ETALON_INLINE static Reg max_keep(Reg best, Reg x) {
    const Mask ordered = _mm512_cmp_ps_mask(best, best, _CMP_ORD_Q);
    return _mm512_mask_blend_ps(_mm512_mask_cmp_ps_mask(ordered, x, best, _CMP_NLE_UQ), best, x);
  }
  // x where it is larger, else best, of numbers: a tie keeps best.
  ETALON_INLINE static Reg larger(Reg x, Reg best) { return _mm512_max_ps(x, best); }
  ETALON_INLINE static Mask is_nan(Reg v) { return _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q); }
  ETALON_INLINE static Reg canonical(Reg v) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), v,
                                _mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)));
  }
  // NaN canonical, what is above 0 as it is, the rest +0.
  ETALON_INLINE static Reg relu(Reg v) {
    // What becomes of a class of values, four bits each from the least: NaN (both kinds) the
    // table's first operand; zero +0; one, +inf and positive v; -inf and negative +0.
    constexpr int kTable = 0x18181800;
    const __m512i table = _mm512_set1_epi32(kTable);
    return _mm512_fixupimm_ps(_mm512_castsi512_ps(_mm512_set1_epi32(0x7fc00000)), v, table, 0);
  }
  // v where its sign bit is clear, else +0: of canonical values, their ReLU.
  ETALON_INLINE static Reg clear_negative(Reg v) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(v), _mm512_setzero_si512()));
  }
  ETALON_INLINE static Mask is_zero(Reg v) {
    return _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_EQ_OQ);
  }
  // Elements 0, 2, 4, ... and 1, 3, 5, ... of a and b as one sequence.
  ETALON_INLINE static Reg even(Reg a, Reg b) {
    return _mm512_permutex2var_ps(
        a, _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30), b);
  }
  ETALON_INLINE static Reg odd(Reg a, Reg b) {
    return _mm512_permutex2var_ps(
        a, _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31), b);
  }
  // Lane i of the result is lane from[i] of v.
  ETALON_INLINE static Reg permute(Reg v, const std::int32_t* from) {
    return _mm512_permutexvar_ps(_mm512_loadu_si512(from), v);
  }
  // m[i] holds row i of a 16x16 square; afterwards column i.
  ETALON_INLINE static void transpose(Reg (&m)[16]) {
    Reg t[16];
    simd::unroll<8>([&](auto i) ETALON_INLINE_LAMBDA {
      t[2 * i] = _mm512_unpacklo_ps(m[2 * i], m[2 * i + 1]);
      t[2 * i + 1] = _mm512_unpackhi_ps(m[2 * i], m[2 * i + 1]);
    });
    simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
      const __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 2]);
      const __m512d c = _mm512_castps_pd(t[4 * i + 1]), d = _mm512_castps_pd(t[4 * i + 3]);
      m[4 * i] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
      m[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
      m[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(c, d));
      m[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(c, d));
    });
    simd::unroll<2>([&](auto h) ETALON_INLINE_LAMBDA {
      simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
        t[8 * h + i] = _mm512_shuffle_f32x4(m[8 * h + i], m[8 * h + 4 + i], 0x88);
        t[8 * h + 4 + i] = _mm512_shuffle_f32x4(m[8 * h + i], m[8 * h + 4 + i], 0xdd);
      });
    });
    simd::unroll<8>([&](auto i) ETALON_INLINE_LAMBDA {
      m[i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
      m[8 + i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
    });
  }
  // m[k] = element k of sixteen rows, lane i from row(i). Halves of two rows are joined as they are
  // loaded, which saves one of the four rounds of shuffles that a whole square takes; quarters
  // would save two, but of rows 4 KiB apart the first cache does not keep the lines from one to the
  // next.
  template <class Row>
  ETALON_INLINE static void load_turned(Row row, Reg (&m)[16]) {
    load_turned_by_fours(row, [&](auto first, const Reg(&four)[4]) ETALON_INLINE_LAMBDA {
      simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA { m[first + i] = four[i]; });
    });
  }
  // The same, use(k, elements k to k + 3) for k = 0, 4, 8 and 12 as they come.
  template <class Row, class Use>
  ETALON_INLINE static void load_turned_by_fours(Row row, Use use) {
    const auto halves = [](const float* low, const float* high) ETALON_INLINE_LAMBDA {
      return _mm512_insertf32x8(_mm512_castps256_ps512(_mm256_loadu_ps(low)), _mm256_loadu_ps(high),
                                1);
    };
    Reg p[16];  // of rows r and r + 4: elements k to k + 7, then those from k + 8 on
    simd::unroll<8>([&](auto i) ETALON_INLINE_LAMBDA {
      constexpr int r = i < 4 ? i : i + 4;
      p[i] = halves(row(r), row(r + 4));
      p[8 + i] = halves(row(r) + 8, row(r + 4) + 8);
    });
    simd::unroll<4>([&](auto quarter) ETALON_INLINE_LAMBDA {
      constexpr int h = 8 * (quarter / 2);
      __m512 t[4];  // four elements of rows j, j + 4, j + 8, j + 12
      simd::unroll<4>([&](auto j) ETALON_INLINE_LAMBDA {
        t[j] = _mm512_shuffle_f32x4(p[h + j], p[h + 4 + j], quarter % 2 == 0 ? 0x88 : 0xdd);
      });
      const __m512d a = _mm512_castps_pd(_mm512_unpacklo_ps(t[0], t[1]));
      const __m512d b = _mm512_castps_pd(_mm512_unpacklo_ps(t[2], t[3]));
      const __m512d c = _mm512_castps_pd(_mm512_unpackhi_ps(t[0], t[1]));
      const __m512d d = _mm512_castps_pd(_mm512_unpackhi_ps(t[2], t[3]));
      const Reg four[4] = {
          _mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)),
          _mm512_castpd_ps(_mm512_unpacklo_pd(c, d)), _mm512_castpd_ps(_mm512_unpackhi_pd(c, d))};
      use(std::integral_constant<int, 4 * quarter>{}, four);
    });
  }
};

struct F64 {
  using Scalar = double;
  using Single = F32;
  using Reg = __m512d;
  using Mask = __mmask8;
  static constexpr int lanes = 8;
  static constexpr int registers = 32;

  ETALON_INLINE static Reg zero() { return _mm512_setzero_pd(); }
  ETALON_INLINE static Reg set1(double v) { return _mm512_set1_pd(v); }
  ETALON_INLINE static Mask first(int n) {
    return static_cast<Mask>(n >= lanes ? 0xffU : (1U << n) - 1U);
  }
  ETALON_INLINE static Mask from_bits(std::uint32_t bits) { return static_cast<Mask>(bits); }
  ETALON_INLINE static std::uint32_t to_bits(Mask m) { return m; }
  ETALON_INLINE static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  ETALON_INLINE static Reg load(const double* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
  // f32 in memory, f64 in the register: exact.
  ETALON_INLINE static Reg widen(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  ETALON_INLINE static Reg widen(const float* p, Mask m) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(m, p));
  }
  // The first n values of v.
  ETALON_INLINE static void store_widened(double* p, Single::Reg v, int n) {
    const Reg low = _mm512_cvtps_pd(_mm512_castps512_ps256(v));
    if (n <= lanes) return store(p, low, first(n));
    store(p, low);
    store(p + lanes, _mm512_cvtps_pd(_mm512_extractf32x8_ps(v, 1)), first(n - lanes));
  }
  ETALON_INLINE static void store(double* p, Reg v) { _mm512_storeu_pd(p, v); }
  ETALON_INLINE static void store(double* p, Reg v, Mask m) { _mm512_mask_storeu_pd(p, m, v); }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm512_fmadd_pd(a, b, c); }
  // As F32's.
  ETALON_INLINE static void fma_broadcast(Reg& acc, const double* a, Reg b) {
    asm("vfmadd231pd %2%{1to8%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*a));
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return _mm512_mask3_fmadd_pd(a, b, c, m);
  }
  ETALON_INLINE static Reg canonical(Reg v) {
    return _mm512_mask_blend_pd(_mm512_cmp_pd_mask(v, v, _CMP_UNORD_Q), v,
                                _mm512_castsi512_pd(_mm512_set1_epi64(0x7ff8000000000000)));
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm512_mask_blend_pd(m, otherwise, then);
  }
  ETALON_INLINE static Mask is_zero(Reg v) {
    return _mm512_cmp_pd_mask(v, _mm512_setzero_pd(), _CMP_EQ_OQ);
  }
};

}  // namespace etalon::avx512
