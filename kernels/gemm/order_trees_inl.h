// Balanced trees of single terms, of kernels/gemm/order.h, over an arithmetic N of
// order_chains_inl.h.
#pragma once

#include "kernels/gemm/order_chains_inl.h"

namespace etalon::simd {

// f(i) of 2^D terms from I on, joined in pairs, those in pairs; with +0 added where bits of zeros
// say so.
template <class N, int D, int I, class F>
ETALON_INLINE typename N::Reg order_tree(const F& f) {
  if constexpr (D == 0) {
    return f(std::integral_constant<int, I>{});
  } else {
    const auto x = order_tree<N, D - 1, I>(f);
    const auto y = order_tree<N, D - 1, I + (1 << (D - 1))>(f);
    return N::add(x, y);
  }
}
template <class N, int D, class F>
ETALON_INLINE typename N::Reg order_tree(int i, const F& f, unsigned zeros) {
  typename N::Reg s;
  if constexpr (D == 0)
    s = f(i);
  else
    s = N::add(order_tree<N, D - 1>(i, f, zeros),
               order_tree<N, D - 1>(i + (1 << (D - 1)), f, zeros));
  return (zeros >> D & 1U) != 0 ? N::add_zero(s) : s;
}

template <class N>
ETALON_INLINE typename N::Reg order_first(typename N::Reg a, typename N::Reg b) {
  if constexpr (requires { &N::first_term; })
    return N::first_term(a, b);
  else
    return N::fma(a, b, N::zero());
}

// Whether the terms of a are all numbers.
template <class N, int Terms>
ETALON_INLINE bool order_finite(const OrderChain<typename N::Scalar>& t) {
  typename N::Reg none = N::zero();
  for (int r = 0; r < t.rows; r += N::lanes) {
    const typename N::Mask rows = N::first(t.rows - r);
    unroll<Terms>([&](auto i) ETALON_INLINE_LAMBDA {
      const typename N::Reg x = N::load(t.a + i * t.a_step + r, rows);
      none = N::add(none, N::sub(x, x));
    });
  }
  return N::to_bits(N::is_zero(none)) == (1U << N::lanes) - 1U;
}

// Terms of b stay in registers over the rows: two loads a term would take longer than what an f32
// does with it.
//
// Where the mask takes a term out, b is 0. With an a that is a number that makes a +0 of it, as it
// has to be, unless -0 + 0 is rounded down.
template <class N, int D, bool Masked, bool Down = false, bool OfF32 = false>
void order_pairs(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kTerms = 1 << D, kWidth = 2 * N::lanes;
  if constexpr (Masked && !Down)
    if (order_finite<N, kTerms>(t)) return order_pairs<N, D, false>(t);
  const T* a[kTerms];
  unroll<kTerms>([&](auto i) ETALON_INLINE_LAMBDA { a[i] = t.a + i * t.a_step; });
  const unsigned zeros = t.zeros;
  for (int at = 0; at < kWidth; at += N::lanes) {
    Reg b[kTerms];
    [[maybe_unused]] typename N::Mask m[kTerms];
    unroll<kTerms>([&](auto i) ETALON_INLINE_LAMBDA {
      b[i] = order_load<OfF32, N>(order_b<OfF32, N>(t) + i * t.b_step + at);
      if constexpr (Masked) m[i] = N::from_bits(t.mask[i * t.mask_step] >> at);
    });
    for (std::int64_t r = 0; r < t.rows; ++r) {
      const auto term = [&](auto i) ETALON_INLINE_LAMBDA {
        const Reg x = order_first<N>(N::set1(a[i][r]), b[i]);
        if constexpr (Masked)
          return N::select(m[i], x, N::zero());
        else
          return x;
      };
      join_order<N>(t, t.tile + r * kWidth + at,
                    zeros == 0 ? order_tree<N, D, 0>(term) : order_tree<N, D>(0, term, zeros));
    }
  }
}

// OrderTiles::across of trees.
template <class N, int D, bool OfF32>
void order_pairs_across(const OrderChain<typename N::Scalar>& t) {
  constexpr int kWidth = 2 * N::lanes;
  for (int at = 0; at < kOrderAcross * kWidth; at += N::lanes) {
    const float* b = t.b_f32 + at / kWidth * t.b_panel + at % kWidth;
    const auto term = [&](int i) ETALON_INLINE_LAMBDA {
      return order_first<N>(N::set1(t.a[i * t.a_step]), order_load<OfF32, N>(b + i * t.b_step));
    };
    join_order<N>(t, t.tile + at,
                  t.zeros == 0 ? order_tree<N, D, 0>(term) : order_tree<N, D>(0, term, t.zeros));
  }
}

// The same over QuickFlushed or QuickFlushedWide, level by level through memory.
template <class N, int D, bool OfF32>
void order_quick_across(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kTerms = 1 << D, kWidth = 2 * N::lanes, kVectors = 2 * kOrderAcross;
  Reg sums[kVectors][kTerms / 2], bound_b[kVectors], bound_a = N::bound();
  for (int i = 0; i < kTerms; ++i) bound_a = N::bound(bound_a, N::set1(t.a[i * t.a_step]));
  for (int v = 0; v < kVectors; ++v) {
    const float* from = t.b_f32 + v / 2 * t.b_panel + v % 2 * N::lanes;
    Reg bound = N::bound();
    const auto term = [&](int i) ETALON_INLINE_LAMBDA {
      const Reg b = order_load<OfF32, N>(from + i * t.b_step);
      bound = N::bound(bound, b);
      return N::first_term(N::set1(t.a[i * t.a_step]), b);
    };
    unroll<kTerms / 2>([&](auto i) ETALON_INLINE_LAMBDA {
      const Reg x = term(2 * i);
      sums[v][i] = N::add(x, term(2 * i + 1));
    });
    bound_b[v] = bound;
  }
  unroll<D - 1>([&](auto level) ETALON_INLINE_LAMBDA {
    for (int v = 0; v < kVectors; ++v)
      unroll<(kTerms >> (level + 2))>([&](auto i) ETALON_INLINE_LAMBDA {
        sums[v][i] = N::add(sums[v][2 * i], sums[v][2 * i + 1]);
      });
  });
  for (int v = 0; v < kVectors; ++v) {
    T* tile = t.tile + v / 2 * kWidth + v % 2 * N::lanes;
    Reg s = sums[v][0];
    if (t.join) s = N::add(N::load(tile), s);
    N::store_tree(tile, N::marked(s, bound_a, bound_b[v]));
  }
}

// The same as order_pairs over a Quick arithmetic or one with bounds, which are the caller's to
// look at. All rows' first sums go through memory: of one row's tree a processor waits for most of
// the sums, of all rows' it has enough to do. +0 added to a sum changes none.
template <class N, int D>
void order_quick_pairs(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kTerms = 1 << D, kWidth = 2 * N::lanes;
  const T* a[kTerms];
  unroll<kTerms>([&](auto i) ETALON_INLINE_LAMBDA { a[i] = t.a + i * t.a_step; });
  const int rows = t.rows;
  for (int at = 0; at < kWidth; at += N::lanes) {
    Reg b[kTerms], sums[kOrderRows][kTerms / 2];
    unroll<kTerms>([&](auto i) ETALON_INLINE_LAMBDA { b[i] = N::load(t.b + i * t.b_step + at); });
    for (int r = 0; r < rows; ++r)
      unroll<kTerms / 2>([&](auto i) ETALON_INLINE_LAMBDA {
        const Reg x = N::first_term(N::set1(a[2 * i][r]), b[2 * i]);
        sums[r][i] = N::add(x, N::first_term(N::set1(a[2 * i + 1][r]), b[2 * i + 1]));
      });
    for (int r = 0; r < rows; ++r) {
      T* tile = t.tile + r * kWidth + at;
      Reg s = order_tree<N, D - 1, 0>([&](auto i) ETALON_INLINE_LAMBDA { return sums[r][i]; });
      if (t.join) s = N::add(N::load(tile), s);
      if constexpr (requires { N::store_tree(tile, s); })
        N::store_tree(tile, s);
      else
        N::store(tile, s);
    }
  }
}

template <class N, OrderTerm Term, int D>
void order_sum_pairs(const OrderSum<typename N::Scalar>& t) {
  using Reg = typename N::Reg;
  for (int at = 0; at < t.rows * 2 * N::lanes; at += N::lanes) {
    const auto term = [&](int i) ETALON_INLINE_LAMBDA {
      const float* from = kOrderOfInput<Term> ? t.from + t.term[i * t.step] : nullptr;
      const typename N::Scalar* weights =
          kOrderOfWeights<Term> ? t.weights + t.weight[i * t.step] : nullptr;
      const Reg x = order_element<N, Term>(from, weights, at);
      if constexpr (Term == OrderTerm::product)
        return order_first<N>(N::load(weights + at), x);
      else if constexpr (kOrderSquares<Term>)
        return order_first<N>(x, x);
      else
        return N::add_zero(Term == OrderTerm::magnitude ? N::abs(x) : x);
    };
    join_order<N>(t, t.tile + at,
                  t.zeros == 0 ? order_tree<N, D, 0>(term) : order_tree<N, D>(0, term, t.zeros));
  }
}

}  // namespace etalon::simd
