#include <immintrin.h>

#include "kernels/gemm/halves.h"
#include "kernels/simd/unroll.h"

namespace etalon::avx2 {
namespace {

constexpr int kLanes = 8;

ETALON_INLINE __m256 widen(DType type, __m128i halves) {
  return type == DType::f16
             ? _mm256_cvtph_ps(halves)
             : _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(halves), 16));
}

// The upper half of the bits, one more where the lower is above the middle, or on it and the upper
// odd: infinity is where that leads from the largest numbers.
ETALON_INLINE __m256i rounded_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  return _mm256_srli_epi32(_mm256_add_epi32(bits, up), 16);
}

ETALON_INLINE __m128i narrow(DType type, __m256 x) {
  const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q);
  if (type == DType::f16)  // the canonical NaN of f32 becomes that of f16
    return _mm256_cvtps_ph(
        _mm256_blendv_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)), nan),
        _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256i held =
      _mm256_blendv_epi8(rounded_bf16(x), _mm256_set1_epi32(0x7fc0), _mm256_castps_si256(nan));
  return _mm_packus_epi32(_mm256_castsi256_si128(held), _mm256_extracti128_si256(held, 1));
}

// Of f16: 2^-13, below which not all its numbers have eleven digits.
constexpr int kLeastUsual = 0x39000000;

// All bits of a lane where x is a midpoint of the format.
ETALON_INLINE __m256i on_midpoint(DType type, __m256 x) {
  const auto is = [](__m256i bits, int mask, int value) {
    return _mm256_cmpeq_epi32(_mm256_and_si256(bits, _mm256_set1_epi32(mask)),
                              _mm256_set1_epi32(value));
  };
  const __m256i bits = _mm256_castps_si256(x),
                size = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  const auto below = [&](int limit) { return _mm256_cmpgt_epi32(_mm256_set1_epi32(limit), size); };
  if (type == DType::bf16) return _mm256_and_si256(is(bits, 0xffff, 0x8000), below(0x7f800000));
  // Subnormal numbers of f16 are multiples of 2^-24, as are those of its least binade: the
  // midpoints there are odd multiples of 2^-25, and below 2^-13 no other number's 2^25-fold, which
  // is below 2^12, is whole and odd.
  const __m256 times = _mm256_mul_ps(x, _mm256_set1_ps(0x1p25F));
  const __m256i whole = _mm256_cvttps_epi32(times);
  const __m256i same =
      _mm256_castps_si256(_mm256_cmp_ps(_mm256_cvtepi32_ps(whole), times, _CMP_EQ_OQ));
  const __m256i small = below(kLeastUsual), least = _mm256_and_si256(is(whole, 1, 1), same),
                usual = _mm256_and_si256(is(bits, 0x1fff, 0x1000), below(0x477ff001));  // 65520
  return _mm256_blendv_epi8(usual, least, small);
}

template <bool kCanonical>
void widen_all(DType type, const std::byte* from, float* to, std::int64_t count) {
  const auto* x = reinterpret_cast<const std::uint16_t*>(from);
  const auto widened = [&](__m128i halves) ETALON_INLINE_LAMBDA {
    const __m256 v = widen(type, halves);
    if constexpr (!kCanonical) return v;
    return _mm256_blendv_ps(v, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fc00000)),
                            _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  };
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm256_storeu_ps(to + i, widened(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  if (i == count) return;
  alignas(16) std::uint16_t rest[kLanes] = {};
  alignas(32) float wide[kLanes];
  for (std::int64_t k = i; k < count; ++k) rest[k - i] = x[k];
  _mm256_store_ps(wide, widened(_mm_load_si128(reinterpret_cast<const __m128i*>(rest))));
  for (std::int64_t k = i; k < count; ++k) to[k] = wide[k - i];
}

}  // namespace

std::uint64_t midpoints(DType type, const float* x, std::int64_t count) {
  constexpr int kTogether = 8;
  if (type == DType::f16 && count == kTogether * kLanes) {
    // Of usual numbers, none of them small, few end as a midpoint does.
    const __m256i end = _mm256_set1_epi32(0x1fff), middle = _mm256_set1_epi32(0x1000);
    __m256i any = _mm256_setzero_si256(), least = _mm256_set1_epi32(-1);
    simd::unroll<kTogether>([&](auto i) ETALON_INLINE_LAMBDA {
      const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i * kLanes));
      any = _mm256_or_si256(any, _mm256_cmpeq_epi32(_mm256_and_si256(bits, end), middle));
      least = _mm256_min_epu32(least, _mm256_add_epi32(bits, bits));  // without the sign
    });
    const __m256i small = _mm256_set1_epi32(2 * kLeastUsual - 1);
    any = _mm256_or_si256(any, _mm256_cmpeq_epi32(_mm256_min_epu32(least, small), least));
    if (_mm256_testz_si256(any, any) != 0) return 0;
  }
  const auto of = [&](__m256 v) {
    return static_cast<std::uint64_t>(
        static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(on_midpoint(type, v)))));
  };
  std::uint64_t found = 0;
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) found |= of(_mm256_loadu_ps(x + i)) << i;
  if (i == count) return found;
  alignas(32) float rest[kLanes] = {};
  for (std::int64_t k = i; k < count; ++k) rest[k - i] = x[k];
  return found | of(_mm256_load_ps(rest)) << i;
}

void widen_halves(DType type, const std::byte* from, float* to, std::int64_t count) {
  widen_all<false>(type, from, to, count);
}
void widen_halves_canonical(DType type, const std::byte* from, float* to, std::int64_t count) {
  widen_all<true>(type, from, to, count);
}

void narrow_halves(DType type, const float* from, std::byte* to, std::int64_t count) {
  auto* y = reinterpret_cast<std::uint16_t*>(to);
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i), narrow(type, _mm256_loadu_ps(from + i)));
  if (i == count) return;
  alignas(32) float rest[kLanes] = {};
  alignas(16) std::uint16_t halves[kLanes];
  for (std::int64_t k = i; k < count; ++k) rest[k - i] = from[k];
  _mm_store_si128(reinterpret_cast<__m128i*>(halves), narrow(type, _mm256_load_ps(rest)));
  for (std::int64_t k = i; k < count; ++k) y[k] = halves[k - i];
}

void round_halves(DType type, float* x, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    _mm256_storeu_ps(x + i, widen(type, narrow(type, _mm256_loadu_ps(x + i))));
  if (i == count) return;
  alignas(32) float rest[kLanes] = {};
  for (std::int64_t k = i; k < count; ++k) rest[k - i] = x[k];
  _mm256_store_ps(rest, widen(type, narrow(type, _mm256_load_ps(rest))));
  for (std::int64_t k = i; k < count; ++k) x[k] = rest[k - i];
}

}  // namespace etalon::avx2
