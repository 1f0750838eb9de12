// AVX2 with FMA as the vector types that kernel templates are written over; see simd/avx512.h. A
// mask is a vector whose lanes are all ones or all zeros.
#pragma once

#include <immintrin.h>

#include <bit>
#include <cstdint>

#include "kernels/simd/unroll.h"

namespace etalon::avx2 {

struct F32 {
  using Scalar = float;
  using Reg = __m256;
  using Mask = __m256i;
  static constexpr int lanes = 8;
  static constexpr int registers = 16;

  ETALON_INLINE static Reg zero() { return _mm256_setzero_ps(); }
  ETALON_INLINE static Reg set1(float v) { return _mm256_set1_ps(v); }
  ETALON_INLINE static Mask first(int n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  ETALON_INLINE static Mask from_bits(std::uint32_t bits) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), bit),
                              bit);
  }
  ETALON_INLINE static std::uint32_t to_bits(Mask m) {
    return static_cast<std::uint32_t>(_mm256_movemask_ps(_mm256_castsi256_ps(m)));
  }
  ETALON_INLINE static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  ETALON_INLINE static Reg load(const float* p, Mask m) { return _mm256_maskload_ps(p, m); }
  ETALON_INLINE static Reg load_into(Reg old, const float* p, Mask m) {
    return _mm256_blendv_ps(old, _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m));
  }
  ETALON_INLINE static void store(float* p, Reg v) { _mm256_storeu_ps(p, v); }
  // AMD's masked store is some forty instructions inside, also where the mask is whole.
  ETALON_INLINE static void store(float* p, Reg v, Mask m) {
    const std::uint32_t bits = to_bits(m);
    if (bits == 0xff) return store(p, v);
    if ((bits & (bits + 1)) != 0) return _mm256_maskstore_ps(p, m, v);
    const int first = std::popcount(bits);
    __m128 part = _mm256_castps256_ps128(v);
    if ((first & 4) != 0) {
      _mm_storeu_ps(p, part);
      part = _mm256_extractf128_ps(v, 1);
      p += 4;
    }
    if ((first & 2) != 0) {
      _mm_storel_pi(reinterpret_cast<__m64*>(p), part);
      part = _mm_movehl_ps(part, part);
      p += 2;
    }
    if ((first & 1) != 0) _mm_store_ss(p, part);
  }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  ETALON_INLINE static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  // acc = fma(a, b, acc) in the accumulator's own register. Left to choose which operand a fma
  // overwrites, a compiler of sixteen registers moves accumulators to memory and back.
  ETALON_INLINE static void fma_onto(Reg& acc, Reg a, Reg b) {
    asm("vfmadd231ps %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return _mm256_blendv_ps(c, _mm256_fmadd_ps(a, b, c), _mm256_castsi256_ps(m));
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm256_blendv_ps(otherwise, then, _mm256_castsi256_ps(m));
  }
  // x where it is larger or NaN, but never in the place of a NaN.
  ETALON_INLINE static Reg max_keep(Reg best, Reg x) {
    return _mm256_blendv_ps(
        best, x,
        _mm256_and_ps(_mm256_cmp_ps(x, best, _CMP_NLE_UQ), _mm256_cmp_ps(best, best, _CMP_ORD_Q)));
  }
  // x where it is larger, else best, of numbers: a tie keeps best.
  ETALON_INLINE static Reg larger(Reg x, Reg best) { return _mm256_max_ps(x, best); }
  ETALON_INLINE static Mask is_nan(Reg v) {
    return _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  ETALON_INLINE static Reg canonical(Reg v) {
    return _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)),
                            _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  // v where its sign bit is clear, else +0: of canonical values, their ReLU.
  ETALON_INLINE static Reg clear_negative(Reg v) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(v), _mm256_setzero_si256()));
  }
  // NaN canonical, what is above 0 as it is, the rest +0.
  ETALON_INLINE static Reg relu(Reg v) { return clear_negative(canonical(v)); }
  ETALON_INLINE static Mask is_zero(Reg v) {
    return _mm256_castps_si256(_mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_EQ_OQ));
  }
  // Elements 0, 2, 4, ... and 1, 3, 5, ... of a and b as one sequence.
  ETALON_INLINE static Reg even(Reg a, Reg b) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0x88)), 0xd8));
  }
  ETALON_INLINE static Reg odd(Reg a, Reg b) {
    return _mm256_castpd_ps(
        _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps(a, b, 0xdd)), 0xd8));
  }
  // Lane i of the result is lane from[i] of v.
  ETALON_INLINE static Reg permute(Reg v, const std::int32_t* from) {
    return _mm256_permutevar8x32_ps(v, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  // m[i] holds row i of an 8x8 square; afterwards column i.
  ETALON_INLINE static void transpose(Reg (&m)[8]) {
    Reg t[8];
    simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
      t[2 * i] = _mm256_unpacklo_ps(m[2 * i], m[2 * i + 1]);
      t[2 * i + 1] = _mm256_unpackhi_ps(m[2 * i], m[2 * i + 1]);
    });
    simd::unroll<2>([&](auto i) ETALON_INLINE_LAMBDA {
      m[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
      m[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
      m[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
      m[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    });
    simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
      t[i] = _mm256_permute2f128_ps(m[i], m[4 + i], 0x20);
      t[4 + i] = _mm256_permute2f128_ps(m[i], m[4 + i], 0x31);
    });
    simd::unroll<8>([&](auto i) ETALON_INLINE_LAMBDA { m[i] = t[i]; });
  }
  // m[k] = element k of eight rows, lane i from row(i): halves of rows are put in their place as
  // they are loaded.
  template <class Row>
  ETALON_INLINE static void load_turned(Row row, Reg (&m)[8]) {
    load_turned_by_fours(row, [&](auto first, const Reg(&four)[4]) ETALON_INLINE_LAMBDA {
      simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA { m[first + i] = four[i]; });
    });
  }
  // The same, use(k, elements k to k + 3) for k = 0 and 4 as they come.
  template <class Row, class Use>
  ETALON_INLINE static void load_turned_by_fours(Row row, Use use) {
    simd::unroll<2>([&](auto q) ETALON_INLINE_LAMBDA {
      Reg part[4];
      simd::unroll<4>([&](auto i) ETALON_INLINE_LAMBDA {
        part[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(row(i) + 4 * q)),
                                       _mm_loadu_ps(row(i + 4) + 4 * q), 1);
      });
      const Reg a = _mm256_unpacklo_ps(part[0], part[1]), b = _mm256_unpackhi_ps(part[0], part[1]);
      const Reg c = _mm256_unpacklo_ps(part[2], part[3]), d = _mm256_unpackhi_ps(part[2], part[3]);
      const Reg four[4] = {_mm256_shuffle_ps(a, c, 0x44), _mm256_shuffle_ps(a, c, 0xee),
                           _mm256_shuffle_ps(b, d, 0x44), _mm256_shuffle_ps(b, d, 0xee)};
      use(std::integral_constant<int, 4 * q>{}, four);
    });
  }
};

struct F64 {
  using Scalar = double;
  using Single = F32;
  using Reg = __m256d;
  using Mask = __m256i;
  static constexpr int lanes = 4;
  static constexpr int registers = 16;

  ETALON_INLINE static Reg zero() { return _mm256_setzero_pd(); }
  ETALON_INLINE static Reg set1(double v) { return _mm256_set1_pd(v); }
  ETALON_INLINE static Mask first(int n) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  ETALON_INLINE static Mask from_bits(std::uint32_t bits) {
    const __m256i bit = _mm256_setr_epi64x(1, 2, 4, 8);
    return _mm256_cmpeq_epi64(_mm256_and_si256(_mm256_set1_epi64x(bits), bit), bit);
  }
  ETALON_INLINE static std::uint32_t to_bits(Mask m) {
    return static_cast<std::uint32_t>(_mm256_movemask_pd(_mm256_castsi256_pd(m)));
  }
  ETALON_INLINE static Reg load(const double* p) { return _mm256_loadu_pd(p); }
  ETALON_INLINE static Reg load(const double* p, Mask m) { return _mm256_maskload_pd(p, m); }
  ETALON_INLINE static Reg widen(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  ETALON_INLINE static Reg widen(const float* p, Mask m) {
    const __m128i half = _mm256_castsi256_si128(
        _mm256_permutevar8x32_epi32(m, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6)));
    return _mm256_cvtps_pd(_mm_maskload_ps(p, half));
  }
  // The first n values of v.
  ETALON_INLINE static void store_widened(double* p, Single::Reg v, int n) {
    const Reg low = _mm256_cvtps_pd(_mm256_castps256_ps128(v));
    if (n < lanes) return store_first(p, low, n);
    store(p, low);
    const Reg high = _mm256_cvtps_pd(_mm256_extractf128_ps(v, 1));
    n == 2 * lanes ? store(p + lanes, high) : store_first(p + lanes, high, n - lanes);
  }
  ETALON_INLINE static void store(double* p, Reg v) { _mm256_storeu_pd(p, v); }
  ETALON_INLINE static void store(double* p, Reg v, Mask m) {
    const std::uint32_t bits = to_bits(m);
    if (bits == 0xf) return store(p, v);
    if ((bits & (bits + 1)) != 0) return _mm256_maskstore_pd(p, m, v);
    store_first(p, v, std::popcount(bits));
  }
  // The first n < lanes values of v, in pieces: see the masked store of f32.
  ETALON_INLINE static void store_first(double* p, Reg v, int n) {
    const __m128d low = _mm256_castpd256_pd128(v);
    if (n == 1) return _mm_store_sd(p, low);
    if (n >= 2) _mm_storeu_pd(p, low);
    if (n == 3) _mm_store_sd(p + 2, _mm256_extractf128_pd(v, 1));
  }
  ETALON_INLINE static Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  ETALON_INLINE static Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return _mm256_fmadd_pd(a, b, c); }
  ETALON_INLINE static void fma_onto(Reg& acc, Reg a, Reg b) {
    asm("vfmadd231pd %2, %1, %0" : "+x"(acc) : "x"(a), "x"(b));
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return _mm256_blendv_pd(c, _mm256_fmadd_pd(a, b, c), _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Reg canonical(Reg v) {
    return _mm256_blendv_pd(v, _mm256_castsi256_pd(_mm256_set1_epi64x(0x7ff8000000000000)),
                            _mm256_cmp_pd(v, v, _CMP_UNORD_Q));
  }
  ETALON_INLINE static Reg select(Mask m, Reg then, Reg otherwise) {
    return _mm256_blendv_pd(otherwise, then, _mm256_castsi256_pd(m));
  }
  ETALON_INLINE static Mask is_zero(Reg v) {
    return _mm256_castpd_si256(_mm256_cmp_pd(v, _mm256_setzero_pd(), _CMP_EQ_OQ));
  }
};

}  // namespace etalon::avx2
