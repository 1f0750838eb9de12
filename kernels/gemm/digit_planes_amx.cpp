// Planes of digits that many products share, a convolution's image cut once
// (kernels/conv/digits.cpp), and the rows that are gathered from them.
#include <immintrin.h>

#include "kernels/gemm/digit_set_amx.h"
#include "kernels/gemm/digit_vector_amx.h"

namespace etalon::amx {

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

}  // namespace etalon::amx
