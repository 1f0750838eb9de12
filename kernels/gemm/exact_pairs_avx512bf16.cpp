// The tiles of exact_pairs.h.
#include "kernels/gemm/exact_pair_tile.h"
#include "kernels/gemm/pairs_vector.h"
#include "kernels/gemm/tile_inl.h"

namespace etalon::avx512bf16 {
namespace {

template <int R, int W>
void product(const ExactPairProduct& t) {
  using Reg = Pairs::Reg;
  constexpr int kLanes = Pairs::lanes;
  // Sums of the blocks of a group so far; in registers there is no room.
  alignas(64) float part[R * W * kLanes];
  // Four rows to a pointer, so that all addresses fit the registers.
  constexpr int kGroups = (R + 3) / 4;
  const std::int64_t steps = t.steps, b_vector = t.b_vector, row = t.a_row, rows3 = 3 * row;
  const float* a[kGroups];
  simd::unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA { a[g] = t.a + 4 * g * row; });
  const float* b = t.b;
  bool join = t.join;
  for (std::int64_t group = 0; group == 0 || group < steps; group += kPairBlock * kPairGroup) {
    const std::int64_t end =
        group + kPairBlock * kPairGroup < steps ? group + kPairBlock * kPairGroup : steps;
    std::int64_t at = group;
    do {
      Reg acc[R][W];
      simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = Pairs::zero(); });
      });
      const auto step = [&](auto i) ETALON_INLINE_LAMBDA {
        Reg bv[W];
        simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
          bv[w] = Pairs::load(b + w * b_vector + i * kLanes);
        });
        simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
          constexpr int place = r % 4;
          const float* const at_row = a[r / 4] + i + (place == 3 ? rows3 : place * row);
          simd::fma_row<Pairs, R, W, r>(acc, at_row, bv);
        });
      };
      const std::int64_t n = end - at < kPairBlock ? end - at : kPairBlock;
      if (n == kPairBlock) {
        simd::unroll<kPairBlock>(step);
        simd::unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA { a[g] += kPairBlock; });
        b += kPairBlock * kLanes;
      } else {
        for (std::int64_t i = 0; i < n; ++i, b += kLanes) {
          step(std::integral_constant<int, 0>{});
          simd::unroll<kGroups>([&](auto g) ETALON_INLINE_LAMBDA { ++a[g]; });
        }
      }
      const bool first = at == group, last = at + n == end;
      at += n;
      simd::unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        simd::unroll<W>([&](auto w) ETALON_INLINE_LAMBDA {
          float* const p = part + (r * W + w) * kLanes;
          Reg sum = acc[r][w];
          if (!first) sum = Pairs::add(Pairs::load(p), sum);
          if (!last) {
            Pairs::store(p, sum);
          } else {
            double* const to = t.sums + r * t.sums_row + w * kLanes;
            __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sum)),
                    high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1));
            if (join) {
              low = _mm512_add_pd(_mm512_loadu_pd(to), low);
              high = _mm512_add_pd(_mm512_loadu_pd(to + 8), high);
            }
            _mm512_storeu_pd(to, low);
            _mm512_storeu_pd(to + 8, high);
          }
        });
      });
    } while (at < end);
    join = true;
  }
}

// Chains of two words, joined in f64.
double dot(const float* a, const float* b, std::int64_t steps) {
  constexpr int kChains = 2;
  __m512d sums[kChains][2] = {};
  const auto join = [&](int chain, __m512 sum) ETALON_INLINE_LAMBDA {
    sums[chain][0] = _mm512_add_pd(sums[chain][0], _mm512_cvtps_pd(_mm512_castps512_ps256(sum)));
    sums[chain][1] = _mm512_add_pd(sums[chain][1], _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1)));
  };
  const auto word = [&](std::int64_t at) ETALON_INLINE_LAMBDA {
    return Pairs::fma(Pairs::load(a + at), Pairs::load(b + at), Pairs::zero());
  };
  std::int64_t i = 0;
  for (; i + 32 * kChains <= steps; i += 32 * kChains)
    simd::unroll<kChains>([&](auto j) ETALON_INLINE_LAMBDA {
      join(j, Pairs::fma(Pairs::load(a + i + 32 * j + 16), Pairs::load(b + i + 32 * j + 16),
                         word(i + 32 * j)));
    });
  for (; i + 16 <= steps; i += 16) join(0, word(i));
  if (i < steps) {
    const auto rest = Pairs::first(static_cast<int>(steps - i));
    join(1, Pairs::fma(Pairs::load(a + i, rest), Pairs::load(b + i, rest), Pairs::zero()));
  }
  return _mm512_reduce_add_pd(
      _mm512_add_pd(_mm512_add_pd(sums[0][0], sums[0][1]), _mm512_add_pd(sums[1][0], sums[1][1])));
}

// Products of the upper and of the lower halves by themselves: each is an f32.
double fine_dot(const float* a, const float* b, std::int64_t steps) {
  __m512d sums[4] = {};
  for (std::int64_t i = 0; i < steps; i += 16) {
    const auto there = Pairs::first(static_cast<int>(steps - i < 16 ? steps - i : 16));
    const __m512i x = _mm512_castps_si512(Pairs::load(a + i, there)),
                  y = _mm512_castps_si512(Pairs::load(b + i, there)),
                  upper = _mm512_set1_epi32(static_cast<int>(0xffff0000U));
    const auto product = [](__m512i v, __m512i w) ETALON_INLINE_LAMBDA {
      return _mm512_mul_ps(_mm512_castsi512_ps(v), _mm512_castsi512_ps(w));
    };
    const __m512 terms[2] = {product(_mm512_and_si512(x, upper), _mm512_and_si512(y, upper)),
                             product(_mm512_slli_epi32(x, 16), _mm512_slli_epi32(y, 16))};
    simd::unroll<2>([&](auto j) ETALON_INLINE_LAMBDA {
      sums[2 * j] = _mm512_add_pd(sums[2 * j], _mm512_cvtps_pd(_mm512_castps512_ps256(terms[j])));
      sums[2 * j + 1] =
          _mm512_add_pd(sums[2 * j + 1], _mm512_cvtps_pd(_mm512_extractf32x8_ps(terms[j], 1)));
    });
  }
  return _mm512_reduce_add_pd(
      _mm512_add_pd(_mm512_add_pd(sums[0], sums[1]), _mm512_add_pd(sums[2], sums[3])));
}

// The four vectors of f64 that a vector of words holds: of upper and lower halves.
ETALON_INLINE void widen(__m512 words, __m512d (&to)[4]) {
  const __m512i x = _mm512_castps_si512(words);
  const __m512 halves[2] = {
      _mm512_castsi512_ps(_mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xffff0000U)))),
      _mm512_castsi512_ps(_mm512_slli_epi32(x, 16))};
  simd::unroll<2>([&](auto j) ETALON_INLINE_LAMBDA {
    to[2 * j] = _mm512_cvtps_pd(_mm512_castps512_ps256(halves[j]));
    to[2 * j + 1] = _mm512_cvtps_pd(_mm512_extractf32x8_ps(halves[j], 1));
  });
}

double square(const float* a, std::int64_t steps) {
  __m512d sums[4] = {};
  for (std::int64_t i = 0; i < steps; i += 16) {
    __m512d x[4];
    widen(Pairs::load(a + i, Pairs::first(static_cast<int>(steps - i < 16 ? steps - i : 16))), x);
    simd::unroll<4>([&](auto j)
                        ETALON_INLINE_LAMBDA { sums[j] = _mm512_fmadd_pd(x[j], x[j], sums[j]); });
  }
  return _mm512_reduce_add_pd(
      _mm512_add_pd(_mm512_add_pd(sums[0], sums[1]), _mm512_add_pd(sums[2], sums[3])));
}

void squares(const float* b, std::int64_t steps, double* to) {
  __m512d sums[4] = {};
  for (std::int64_t i = 0; i < steps; ++i) {
    __m512d x[4];
    widen(Pairs::load(b + i * 16), x);
    simd::unroll<4>([&](auto j)
                        ETALON_INLINE_LAMBDA { sums[j] = _mm512_fmadd_pd(x[j], x[j], sums[j]); });
  }
  _mm512_storeu_pd(to, _mm512_add_pd(sums[0], sums[2]));
  _mm512_storeu_pd(to + 8, _mm512_add_pd(sums[1], sums[3]));
}

}  // namespace

const ExactPairSet& exact_pairs() {
  static const ExactPairSet set = [] {
    ExactPairSet all;
    simd::unroll<kPairRows>([&](auto r) {
      all.of[1][r + 1] = product<r + 1, 1>;
      all.of[2][r + 1] = product<r + 1, 2>;
    });
    all.dot = dot;
    all.fine_dot = fine_dot;
    all.square = square;
    all.squares = squares;
    return all;
  }();
  return set;
}

}  // namespace etalon::avx512bf16
