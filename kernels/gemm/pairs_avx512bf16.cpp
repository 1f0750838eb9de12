// Words of two bf16 (pairs.h): the tiles, and what packs.
#include <immintrin.h>

#include <bit>

#include "kernels/gemm/pairs.h"
#include "kernels/gemm/pairs_vector.h"
#include "kernels/gemm/tile_inl.h"
#include "kernels/gemm/tile_sets.h"

namespace etalon::avx512bf16 {
namespace {

ETALON_INLINE __m512i words(const float* first, const float* second) {
  return _mm512_or_si512(_mm512_loadu_si512(first),
                         _mm512_srli_epi32(_mm512_loadu_si512(second), 16));
}

// Inputs of a convolution, f32 that bf16 were widened to, of taps 2i and 2i + 1.
template <int P>
void pack_pieces(const TapPiece* pieces, const std::int64_t* offset, std::int64_t steps, float* dst,
                 std::int64_t step) {
  __mmask16 masks[P];
  const float* sources[P];
  for (int p = 0; p < P; ++p) {
    masks[p] = static_cast<__mmask16>(((1U << pieces[p].size) - 1U) << pieces[p].lane);
    sources[p] = pieces[p].source - pieces[p].lane;
  }
  const auto tap = [&](std::int64_t at) ETALON_INLINE_LAMBDA {
    __m512i v = _mm512_maskz_loadu_epi32(masks[0], sources[0] + at);
    simd::unroll<P - 1>([&](auto p) ETALON_INLINE_LAMBDA {
      v = _mm512_mask_loadu_epi32(v, masks[p + 1], sources[p + 1] + at);
    });
    return v;
  };
  for (std::int64_t i = 0; i < steps; ++i)
    _mm512_storeu_si512(
        dst + i * step,
        _mm512_or_si512(tap(offset[2 * i]), _mm512_srli_epi32(tap(offset[2 * i + 1]), 16)));
}

void pack_taps(const TapPiece* pieces, int count, const std::int64_t* offset, std::int64_t steps,
               int /*fill*/, float* dst, std::int64_t step) {
  switch (count) {
    case 1:
      return pack_pieces<1>(pieces, offset, steps, dst, step);
    case 2:
      return pack_pieces<2>(pieces, offset, steps, dst, step);
    case 3:
      return pack_pieces<3>(pieces, offset, steps, dst, step);
    case 4:
      return pack_pieces<4>(pieces, offset, steps, dst, step);
    default:
      break;
  }
  for (std::int64_t i = 0; i < steps; ++i) {
    std::uint32_t word[Pairs::lanes] = {};
    for (int p = 0; p < count; ++p)
      for (int lane = 0; lane < pieces[p].size; ++lane) {
        const float* at = pieces[p].source + lane;
        word[pieces[p].lane + lane] = std::bit_cast<std::uint32_t>(at[offset[2 * i]]) |
                                      std::bit_cast<std::uint32_t>(at[offset[2 * i + 1]]) >> 16;
      }
    _mm512_storeu_si512(dst + i * step, _mm512_loadu_si512(word));
  }
}

void pack_taps_wide(const float* const* sources, int strips, const std::int64_t* offset,
                    std::int64_t steps, float* dst, std::int64_t dst_strip) {
  simd::in_fours(strips, [&](int first, auto count) ETALON_INLINE_LAMBDA {
    const float* from[count];
    for (int s = 0; s < count; ++s) from[s] = sources[first + s];
    float* to = dst + first * dst_strip;
    for (std::int64_t i = 0; i < steps; ++i, to += Pairs::lanes)
      simd::unroll<count>([&](auto s) ETALON_INLINE_LAMBDA {
        _mm512_storeu_si512(to + s * dst_strip,
                            words(from[s] + offset[2 * i], from[s] + offset[2 * i + 1]));
      });
  });
}

// Of sixteen bits each, without signs.
struct Seen {
  __m512i least = _mm512_set1_epi16(0x7fff), most = _mm512_setzero_si512();
  ETALON_INLINE void add(__m512i halves) {
    const __m512i x = _mm512_and_si512(halves, _mm512_set1_epi16(0x7fff));
    most = _mm512_max_epu16(most, x);
    least = _mm512_mask_min_epu16(least, _mm512_test_epi16_mask(x, x), least, x);
  }
  void join(Magnitudes& to) const {
    std::uint16_t low[32], high[32];
    _mm512_storeu_si512(low, least);
    _mm512_storeu_si512(high, most);
    for (int i = 0; i < 32; ++i) to.join({low[i], high[i]});
  }
};

}  // namespace

const TileSet& tiles() {
  static const TileSet set = [] {
    const TileSet f32 = avx512::tiles_f32();
    TileSet s = simd::make_sum_tiles<Pairs>(Isa::avx512);
    s.terms = 2;
    // These move words as they are, or take sums.
    s.pack_contiguous = f32.pack_contiguous;
    s.pack_strided = f32.pack_strided;
    s.pack_wide = f32.pack_wide;
    s.scale_add = f32.scale_add;
    s.store_transposed = f32.store_transposed;
    s.pack_taps = pack_taps;
    s.pack_taps_wide = pack_taps_wide;
    return s;
  }();
  return set;
}

// Sums of all sizes, on which any other order of the two, or one rounding of both, shows.
bool adds_in_order() {
  constexpr int kWords = 64;
  std::uint32_t state = 1;
  const auto number = [&] {
    state = state * 1664525U + 1013904223U;
    const std::uint32_t exponent = 127U - 6U + (state >> 8 & 0xffU) % 13U;
    return (state & 0x80000000U) | exponent << 23 | (state >> 1 & 0x7f0000U);
  };
  for (int i = 0; i < kWords; ++i) {
    alignas(64) std::uint32_t a[16], b[16], sum[16], got[16];
    bool same = true;
    float want[16];
    for (int lane = 0; lane < 16; ++lane) {
      const std::uint32_t upper_a = number(), lower_a = number();
      const std::uint32_t upper_b = number(), lower_b = number();
      a[lane] = upper_a | lower_a >> 16;
      b[lane] = upper_b | lower_b >> 16;
      sum[lane] = number() | (number() >> 7 & 0xffffU);
      const auto f = [](std::uint32_t x) { return std::bit_cast<float>(x); };
      // Products of 16 bits are exact; each sum is rounded on its own.
      const float upper = f(upper_a) * f(upper_b), lower = f(lower_a) * f(lower_b);
      volatile float first = f(sum[lane]) + upper;
      want[lane] = first + lower;
    }
    _mm512_store_ps(got, Pairs::fma(_mm512_load_ps(a), _mm512_load_ps(b), _mm512_load_ps(sum)));
    for (int lane = 0; lane < 16; ++lane)
      same = same && got[lane] == std::bit_cast<std::uint32_t>(want[lane]);
    if (!same) return false;
  }
  return true;
}

void pair_along(const std::uint16_t* from, std::int64_t k, float* to, Magnitudes& seen) {
  Seen all;
  for (std::int64_t i = 0; i < k; i += 32) {
    const auto in = static_cast<__mmask32>(k - i >= 32 ? ~0U : (1U << (k - i)) - 1U);
    const auto out = static_cast<__mmask16>(k - i >= 31 ? 0xffffU : (1U << pair_steps(k - i)) - 1U);
    const __m512i x = _mm512_maskz_loadu_epi16(in, from + i);
    all.add(x);
    _mm512_mask_storeu_epi32(to + i / 2, out, _mm512_rol_epi32(x, 16));
  }
  all.join(seen);
}

void pair_across(const std::uint16_t* first, const std::uint16_t* second, std::int64_t n, float* to,
                 Magnitudes& seen) {
  Seen all;
  for (std::int64_t i = 0; i < n; i += 16) {
    const auto in = static_cast<__mmask16>(n - i >= 16 ? 0xffffU : (1U << (n - i)) - 1U);
    const auto row = [&](const std::uint16_t* p) {
      return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(in, p + i));
    };
    __m512i x = _mm512_slli_epi32(row(first), 16);
    if (second != nullptr) x = _mm512_or_si512(x, row(second));
    all.add(x);
    _mm512_mask_storeu_epi32(to + i, in, x);
  }
  all.join(seen);
}

void pack_across(const PairsAcross& p, Magnitudes& seen) {
  Seen all;
  const auto in = static_cast<__mmask32>(p.count >= 32 ? ~0U : (1U << p.count) - 1U);
  for (std::int64_t i = 0; i < p.k; i += 2) {
    const __m512i first = _mm512_maskz_loadu_epi16(in, p.from + i * p.row),
                  second = i + 1 < p.k ? _mm512_maskz_loadu_epi16(in, p.from + (i + 1) * p.row)
                                       : _mm512_setzero_si512();
    all.add(first);
    all.add(second);
    const auto store = [&](float* to, __m256i upper, __m256i lower) ETALON_INLINE_LAMBDA {
      _mm512_storeu_si512(to + i / 2 * 16,
                          _mm512_or_si512(_mm512_slli_epi32(_mm512_cvtepu16_epi32(upper), 16),
                                          _mm512_cvtepu16_epi32(lower)));
    };
    store(p.to, _mm512_castsi512_si256(first), _mm512_castsi512_si256(second));
    if (p.count > 16)
      store(p.to + p.to_strip, _mm512_extracti64x4_epi64(first, 1),
            _mm512_extracti64x4_epi64(second, 1));
  }
  all.join(seen);
}

void see(const std::uint16_t* from, std::int64_t count, Magnitudes& seen) {
  Seen all;
  for (std::int64_t i = 0; i < count; i += 32) {
    const auto in = static_cast<__mmask32>(count - i >= 32 ? ~0U : (1U << (count - i)) - 1U);
    all.add(_mm512_maskz_loadu_epi16(in, from + i));
  }
  all.join(seen);
}

}  // namespace etalon::avx512bf16
