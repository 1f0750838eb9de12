// kernels/gemm/exact_product.h over a vector type V (exact_vector_*.h); included only by the files
// of one instruction set each.
#pragma once

#include <immintrin.h>

#include "kernels/gemm/exact_product.h"
#include "kernels/gemm/tile_inl.h"

namespace etalon::simd {

// Rows of a tile rounded; the same terms as exact_decide (exact_decide.h), in the same units.
template <class V, int R, bool kCells>
ETALON_INLINE std::uint32_t exact_end(const ExactEnd& end, const typename V::Reg (&sums)[R][2]) {
  using Reg = typename V::Reg;
  const Reg addition = V::set1(0x1p-51),
            norms[2] = {V::load(end.norms), V::load(end.norms + V::lanes)};
  std::uint32_t any = 0;
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    const Reg bound = V::set1(end.bounds[r]), added = V::set1(end.added[r]);
    typename V::Narrow low[2], high[2];
    unroll<2>([&](auto w) ETALON_INLINE_LAMBDA {
      const Reg t = V::add(sums[r][w], added),
                e = V::fma(addition, V::abs(t), V::mul(bound, norms[w]));
      low[w] = V::narrow(V::sub(t, e));
      high[w] = V::narrow(V::add(t, e));
    });
    const auto lows = V::both(low[0], low[1]);
    V::store_both(end.y + r * end.y_row, lows);
    const auto highs = V::both(high[0], high[1]);
    end.undecided[r] = kCells ? V::apart(lows, highs, *end.cells) : V::differ(lows, highs);
    any |= end.undecided[r];
  });
  return any;
}

// Step k of a tile, whose operands stand at a and b.
template <class V, int R, int W>
ETALON_INLINE void exact_step(typename V::Reg (&acc)[R][W], const double* a, const float* b) {
  typename V::Reg bv[W];
  unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { bv[w] = V::widen(b + w * V::lanes); });
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    if constexpr (kHalfLines<V>) {
      const typename V::Reg av = V::set1(a[r]);
      unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { V::fma_onto(acc[r][w], av, bv[w]); });
    } else {
      fma_row<V, R, W, r>(acc, a + r, bv);
    }
  });
}

// Steps of k, four at a time; b packed has a step that is known, so that addresses are constants.
template <class V, int R, int W, bool kPacked>
ETALON_INLINE std::int64_t exact_steps(typename V::Reg (&acc)[R][W], std::int64_t terms,
                                       const double*& a, const float*& b, std::int64_t b_step,
                                       const char* next, std::int64_t next_step) {
  constexpr int kSteps = 4;
  std::int64_t k = 0;
  for (; k + kSteps <= terms; k += kSteps) {
    unroll<kSteps>([&](auto i) ETALON_INLINE_LAMBDA {
      _mm_prefetch(next, _MM_HINT_T1);
      next += next_step;
      exact_step<V, R, W>(acc, a + i * R, kPacked ? b + i * 2 * V::lanes : b + i * b_step);
    });
    a += kSteps * R;
    b += kPacked ? kSteps * 2 * V::lanes : kSteps * b_step;
  }
  return k;
}

template <class V, int R, int W>
std::uint32_t exact_product(const ExactProduct& t) {
  using Reg = typename V::Reg;
  Reg acc[R][W];
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    unroll<W>([&](auto w) ETALON_INLINE_LAMBDA { acc[r][w] = V::zero(); });
  });
  const double* a = t.a;
  const float* b = t.b;
  const std::int64_t terms = t.k, b_step = t.b_step, next_step = t.next_step;
  const char* next = static_cast<const char*>(next_step == 0 ? t.a : t.next);
  std::int64_t k = b_step == 2 * V::lanes
                       ? exact_steps<V, R, W, true>(acc, terms, a, b, b_step, next, next_step)
                       : exact_steps<V, R, W, false>(acc, terms, a, b, b_step, next, next_step);
  for (; k < terms; ++k, a += R, b += b_step) exact_step<V, R, W>(acc, a, b);
  const auto each = [&](auto f) ETALON_INLINE_LAMBDA {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      unroll<W>([&](auto w)
                    ETALON_INLINE_LAMBDA { f(acc[r][w], t.sums + r * t.sums_row + w * V::lanes); });
    });
  };
  if (t.join)
    each([](Reg& sum, const double* at) ETALON_INLINE_LAMBDA { sum = V::add(V::load(at), sum); });
  if constexpr (W == 2) {
    if (t.end != nullptr)
      return t.end->cells == nullptr ? exact_end<V, R, false>(*t.end, acc)
                                     : exact_end<V, R, true>(*t.end, acc);
  }
  each([](Reg& sum, double* at) ETALON_INLINE_LAMBDA { V::store(at, sum); });
  return 0;
}

template <class V>
ExactProducts make_exact_products() {
  ExactProducts set{.lanes = V::lanes,
                    .rows = max_rows<V>(2),
                    .pack_contiguous = pack_contiguous<V>,
                    .pack_strided = pack_strided<V>};
  unroll<max_rows<V>(2)>([&](auto r) {
    set.of[1][r + 1] = exact_product<V, r + 1, 1>;
    set.of[2][r + 1] = exact_product<V, r + 1, 2>;
  });
  return set;
}

}  // namespace etalon::simd
