// Chains and joins of kernels/gemm/order.h over an arithmetic N: Scalar, Reg, Mask, lanes; load,
// store, zero, set1, from_bits, raw, take, add, mul, fma, fma under a mask, div, sqrt, gather.
// Included only by the files of one instruction set each.
#pragma once

#include <type_traits>

#include "kernels/gemm/order_narrow_inl.h"
#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// What a contract flushes need not be zero where a processor that takes subnormal operands for
// zeros (kFlushedByUse) reads it next: chains leave it, flushed() makes it so at the end.

// Vectors of V as they are, products fused into the sum or rounded before.
template <class V, bool Fused, bool Flush>
struct PlainArithmetic : V {
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
  static constexpr bool kSettles = false, kFlush = Flush, kFlushedByUse = Flush;
  ETALON_INLINE static Reg take(const float* p) {
    if constexpr (Flush)
      return V::flush_f32(V::raw(p));
    else
      return V::raw(p);
  }
  ETALON_INLINE static Reg flushed(Reg v) {
    if constexpr (Flush)
      return V::flush(v);
    else
      return v;
  }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) {
    if constexpr (Fused)
      return V::fma(a, b, c);
    else
      return V::add(c, V::mul(a, b));
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    if constexpr (Fused)
      return V::fma(m, a, b, c);
    else
      return V::add_where(m, c, V::mul(a, b));
  }
};

template <class N, class Chain>
ETALON_INLINE void join_order(const Chain& t, typename N::Scalar* tile, typename N::Reg s) {
  if (t.join) s = N::add(N::load(tile), s);
  if (t.join_zero) s = N::add_zero(s);
  N::store(tile, s);
}

// The accumulators of a tile, or of as many of its rows as registers hold beside what else a step
// needs: R rows of two vectors.
template <class N, int R>
struct OrderAccumulators {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  static constexpr int kWidth = 2 * N::lanes;
  Reg acc[R][2];

  // f(r, v, accumulator)
  template <class F>
  ETALON_INLINE void each(F&& f) {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      f(r, 0, acc[r][0]);
      f(r, 1, acc[r][1]);
    });
  }
  ETALON_INLINE void begin(const T* tile, bool resume) {
    if (resume)
      each([&](int r, int v, Reg& s)
               ETALON_INLINE_LAMBDA { s = N::load(tile + r * kWidth + v * N::lanes); });
    else
      each([&](int, int, Reg& s) ETALON_INLINE_LAMBDA { s = N::zero(); });
  }
  template <class Chain>
  ETALON_INLINE void end(const Chain& t, T* tile) {
    const auto add_zero = [&](int, int, Reg& s) ETALON_INLINE_LAMBDA { s = N::add_zero(s); };
    const auto at = [&](int r, int v) { return tile + r * kWidth + v * N::lanes; };
    if (t.zeros != 0) each(add_zero);
    if (t.join)
      each([&](int r, int v, Reg& s) ETALON_INLINE_LAMBDA { s = N::add(N::load(at(r, v)), s); });
    if (t.join_zero) each(add_zero);
    each([&](int r, int v, Reg& s) ETALON_INLINE_LAMBDA { N::store(at(r, v), s); });
  }
};

template <class N>
inline constexpr int kRowsAtOnce = N::registers / 4;

// b as the accumulator has it, or the f32 that it is.
template <bool OfF32, class N>
ETALON_INLINE auto order_b(const OrderChain<typename N::Scalar>& t) {
  if constexpr (OfF32)
    return t.b_f32;
  else
    return t.b;
}
template <bool OfF32, class N, class B>
ETALON_INLINE typename N::Reg order_load(const B* b) {
  if constexpr (OfF32)
    return N::take(b);
  else
    return N::load(b);
}

template <class N, int R, bool Masked, bool OfF32 = false>
void order_chain(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kRows = R < kRowsAtOnce<N> ? R : kRowsAtOnce<N>;
  for (int first = 0; first < R; first += kRows) {
    OrderAccumulators<N, kRows> s;
    const T* a = t.a + first;
    T* tile = t.tile + first * (2 * N::lanes);
    const auto* b = order_b<OfF32, N>(t);
    const std::uint32_t* mask = t.mask;
    const std::int64_t a_step = t.a_step, b_step = t.b_step, mask_step = t.mask_step;
    std::int64_t k = 0;
    bool begun = false;
    if constexpr (requires { &N::first_term; } && !Masked) begun = !t.resume && t.count > 0;
    if (!begun) {
      s.begin(tile, t.resume);
    } else if constexpr (requires { &N::first_term; }) {
      const Reg b0 = order_load<OfF32, N>(b), b1 = order_load<OfF32, N>(b + N::lanes);
      s.each([&](int r, int v, Reg& x)
                 ETALON_INLINE_LAMBDA { x = N::first_term(N::set1(a[r]), v == 0 ? b0 : b1); });
      a += a_step;
      b += b_step;
      ++k;
    }
    for (; k < t.count; ++k) {
      const Reg b0 = order_load<OfF32, N>(b), b1 = order_load<OfF32, N>(b + N::lanes);
      if constexpr (Masked) {
        const typename N::Mask m0 = N::from_bits(*mask), m1 = N::from_bits(*mask >> N::lanes);
        s.each([&](int r, int v, Reg& x) ETALON_INLINE_LAMBDA {
          x = N::fma(v == 0 ? m0 : m1, N::set1(a[r]), v == 0 ? b0 : b1, x);
        });
        mask += mask_step;
      } else {
        s.each([&](int r, int v, Reg& x)
                   ETALON_INLINE_LAMBDA { x = N::fma(N::set1(a[r]), v == 0 ? b0 : b1, x); });
      }
      a += a_step;
      b += b_step;
    }
    s.end(t, tile);
  }
}

// The same over QuickFlushed.
template <class N, int R>
void order_watched_chain(const OrderChain<typename N::Scalar>& t) {
  using Reg = typename N::Reg;
  constexpr int kRows = R < kRowsAtOnce<N> ? R : kRowsAtOnce<N>, kWidth = 2 * N::lanes;
  for (int first = 0; first < R; first += kRows) {
    OrderAccumulators<N, kRows> s;
    const auto* a = t.a + first;
    const auto* b = t.b;
    auto* tile = t.tile + first * kWidth;
    const std::int64_t a_step = t.a_step, b_step = t.b_step;
    s.begin(tile, t.resume);
    Reg most = N::zero();
    s.each([&](int, int, Reg& x) ETALON_INLINE_LAMBDA { most = N::watch(x, most); });
    for (std::int64_t k = 0; k < t.count; ++k, a += a_step, b += b_step) {
      const Reg b0 = N::load(b), b1 = N::load(b + N::lanes);
      s.each([&](int r, int v, Reg& x)
                 ETALON_INLINE_LAMBDA { x = N::fma(N::set1(a[r]), v == 0 ? b0 : b1, x, most); });
    }
    s.end(t, tile);
    for (int at = 0; at < kRows * kWidth; at += N::lanes) N::check(tile + at, most);
  }
}

template <OrderTerm Term>
inline constexpr bool kOrderOfWeights =
    Term == OrderTerm::product || Term == OrderTerm::result || Term == OrderTerm::result_square;
template <OrderTerm Term>
inline constexpr bool kOrderOfInput = Term != OrderTerm::result && Term != OrderTerm::result_square;
template <OrderTerm Term>
inline constexpr bool kOrderSquares = Term == OrderTerm::square || Term == OrderTerm::result_square;
template <class N, OrderTerm Term>
ETALON_INLINE typename N::Reg order_element(const float* from, const typename N::Scalar* weights,
                                            std::int64_t at) {
  if constexpr (kOrderOfInput<Term>)
    return N::raw(from + at);
  else
    return N::load(weights + at);
}

template <class N, OrderTerm Term, int R>
void order_sum(const OrderSum<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  if constexpr (R > kRowsAtOnce<N>) {
    OrderSum<T> half = t;
    order_sum<N, Term, R / 2>(half);
    if constexpr (kOrderOfInput<Term>) half.from += R / 2 * (2 * N::lanes);
    if constexpr (kOrderOfWeights<Term>) half.weights += R / 2 * (2 * N::lanes);
    half.tile += R / 2 * (2 * N::lanes);
    order_sum<N, Term, R / 2>(half);
  } else {
    OrderAccumulators<N, R> s;
    s.begin(t.tile, t.resume);
    const std::int64_t* term = t.term;
    const std::int64_t* weight = t.weight;
    for (std::int64_t k = 0; k < t.count; ++k, term += kOrderOfInput<Term> ? t.step : 0) {
      const float* from = kOrderOfInput<Term> ? t.from + *term : nullptr;
      const T* weights = nullptr;
      if constexpr (kOrderOfWeights<Term>) {
        weights = t.weights + *weight;
        weight += t.step;
      }
      s.each([&](int r, int v, Reg& sum) ETALON_INLINE_LAMBDA {
        const int at = (2 * r + v) * N::lanes;
        const Reg x = order_element<N, Term>(from, weights, at);
        if constexpr (Term == OrderTerm::product)
          sum = N::fma(N::load(weights + at), x, sum);
        else if constexpr (kOrderSquares<Term>)
          sum = N::fma(x, x, sum);
        else
          sum = N::add(sum, Term == OrderTerm::magnitude ? N::abs(x) : x);
      });
    }
    s.end(t, t.tile);
  }
}

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

// OrderTiles::across
template <class N, bool OfF32>
void order_across(const OrderChain<typename N::Scalar>& t) {
  using Reg = typename N::Reg;
  static_assert(kOrderAcross <= kRowsAtOnce<N>);
  OrderAccumulators<N, kOrderAcross> s;
  s.begin(t.tile, t.resume);
  const auto* a = t.a;
  const float* b = t.b_f32;
  const std::int64_t b_panel = t.b_panel;
  for (std::int64_t k = 0; k < t.count; ++k, a += t.a_step, b += t.b_step) {
    const Reg x = N::set1(*a);
    s.each([&](int p, int v, Reg& sum) ETALON_INLINE_LAMBDA {
      sum = N::fma(x, order_load<OfF32, N>(b + p * b_panel + v * N::lanes), sum);
    });
  }
  s.end(t, t.tile);
}
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

// The same over QuickFlushed, level by level as order_quick_pairs.
template <class N, int D, bool OfF32>
void order_quick_across(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kTerms = 1 << D, kWidth = 2 * N::lanes, kVectors = 2 * kOrderAcross;
  Reg sums[kVectors][kTerms / 2], largest_b[kVectors], largest_a = N::zero();
  for (int i = 0; i < kTerms; ++i)
    largest_a = N::larger_bits(largest_a, N::abs(N::set1(t.a[i * t.a_step])));
  for (int v = 0; v < kVectors; ++v) {
    const float* from = t.b_f32 + v / 2 * t.b_panel + v % 2 * N::lanes;
    Reg largest = N::zero();
    const auto term = [&](int i) ETALON_INLINE_LAMBDA {
      const Reg b = order_load<OfF32, N>(from + i * t.b_step);
      largest = N::larger_bits(largest, N::abs(b));
      return N::first_term(N::set1(t.a[i * t.a_step]), b);
    };
    unroll<kTerms / 2>([&](auto i) ETALON_INLINE_LAMBDA {
      const Reg x = term(2 * i);
      sums[v][i] = N::add(x, term(2 * i + 1));
    });
    largest_b[v] = largest;
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
    N::store(tile, s, largest_a, largest_b[v]);
  }
}

// The same as order_pairs over a Quick arithmetic or QuickFlushed. Level by level through memory:
// of one row's tree a processor waits for most of the sums, of all rows' it has enough to do. +0
// added to a sum changes none.
template <class N, int D>
void order_quick_pairs(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kTerms = 1 << D, kWidth = 2 * N::lanes;
  constexpr bool kWatched = requires { &N::check; };
  const T* a[kTerms];
  unroll<kTerms>([&](auto i) ETALON_INLINE_LAMBDA { a[i] = t.a + i * t.a_step; });
  const int rows = t.rows;
  [[maybe_unused]] T largest_a[kOrderRows + N::lanes];
  if constexpr (kWatched) N::template largest<kTerms>(a, rows, largest_a);
  // Terms whose b stays in registers beside constants.
  constexpr int kHeld = kTerms < N::registers / 4 ? kTerms : N::registers / 4;
  for (int at = 0; at < kWidth; at += N::lanes) {
    Reg sums[kOrderRows][kTerms / 2];
    [[maybe_unused]] Reg largest_b = N::zero();
    unroll<kTerms / kHeld>([&](auto part) ETALON_INLINE_LAMBDA {
      Reg b[kHeld];
      unroll<kHeld>([&](auto i) ETALON_INLINE_LAMBDA {
        b[i] = N::load(t.b + (part * kHeld + i) * t.b_step + at);
        if constexpr (kWatched) largest_b = N::larger_bits(largest_b, N::abs(b[i]));
      });
      const T* const* of = a + part * kHeld;
      for (int r = 0; r < rows; ++r)
        unroll<kHeld / 2>([&](auto i) ETALON_INLINE_LAMBDA {
          const Reg x = N::first_term(N::set1(of[2 * i][r]), b[2 * i]);
          sums[r][part * (kHeld / 2) + i] =
              N::add(x, N::first_term(N::set1(of[2 * i + 1][r]), b[2 * i + 1]));
        });
    });
    unroll<D - 1>([&](auto level) ETALON_INLINE_LAMBDA {
      for (int r = 0; r < rows; ++r)
        unroll<(kTerms >> (level + 2))>([&](auto i) ETALON_INLINE_LAMBDA {
          sums[r][i] = N::add(sums[r][2 * i], sums[r][2 * i + 1]);
        });
    });
    for (int r = 0; r < rows; ++r) {
      T* tile = t.tile + r * kWidth + at;
      Reg s = sums[r][0];
      if (t.join) s = N::add(N::load(tile), s);
      if constexpr (kWatched)
        N::store(tile, s, N::set1(largest_a[r]), largest_b);
      else
        N::store(tile, s);
    }
  }
}

// Whether a tile is of finite numbers, and those lanes of each row that `nonzero` names not zero.
template <class N>
bool order_held(const typename N::Scalar* tile, int rows, std::uint32_t nonzero) {
  using Reg = typename N::Reg;
  const Reg one = N::set1(1);
  Reg none = N::zero();
  std::uint32_t zeros = 0;
  for (int v = 0; v < 2; ++v) {
    const typename N::Mask m = N::from_bits(nonzero >> (v * N::lanes));
    for (int r = 0; r < rows; ++r) {
      const Reg x = N::load(tile + (2 * r + v) * N::lanes);
      none = N::add(none, N::sub(x, x));
      zeros |= N::to_bits(N::is_zero(N::select(m, x, one)));
    }
  }
  return zeros == 0 && N::to_bits(N::is_zero(none)) == (1U << N::lanes) - 1U;
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

template <class N, OrderEach Op>
void order_each(const OrderOperands<typename N::Scalar>& o) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  const OrderOperands<T> t = o;
  for (std::int64_t row = 0; row < t.rows; ++row) {
    const T *a = t.a.at + row * t.a.step, *b = t.b.at + row * t.b.step, *c = nullptr;
    if constexpr (Op == OrderEach::fma) c = t.c.at + row * t.c.step;
    T* to = t.to + row * t.lanes;
    for (std::int64_t i = 0; i < t.lanes; i += N::lanes) {
      const Reg x = t.a.one ? N::set1(*a) : N::load(a + i);
      const Reg y = t.b.one ? N::set1(*b) : N::load(b + i);
      Reg r;
      if constexpr (Op == OrderEach::add)
        r = N::add(x, y);
      else if constexpr (Op == OrderEach::sub)
        r = N::sub(x, y);
      else if constexpr (Op == OrderEach::mul)
        r = N::mul(x, y);
      else if constexpr (Op == OrderEach::div)
        r = N::div(x, y);
      else if constexpr (Op == OrderEach::fma)
        r = N::fma(x, y, t.c.one ? N::set1(*c) : N::load(c + i));
      else
        r = N::max_keep(x, y);
      N::store(to + i, N::flushed(r));
    }
  }
}

// Squares of Block's lanes at a time, the rest one by one.
template <class Block>
void order_turn(const float* from, const std::int64_t* first, std::int64_t count, float* to,
                std::int64_t pitch) {
  constexpr int kSide = Block::lanes;
  std::int64_t k = 0;
  for (; k + kSide <= count; k += kSide) {
    typename Block::Reg m[kSide];
    unroll<kSide>([&](auto i) ETALON_INLINE_LAMBDA { m[i] = Block::load(from + first[i] + k); });
    Block::transpose(m);
    unroll<kSide>([&](auto i) ETALON_INLINE_LAMBDA { Block::store(to + (k + i) * pitch, m[i]); });
  }
  for (; k < count; ++k)
    for (int lane = 0; lane < kSide; ++lane) to[k * pitch + lane] = from[first[lane] + k];
}

template <class N>
void order_enter(const float* from, typename N::Scalar* to, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + N::lanes <= n; i += N::lanes) N::store(to + i, N::take(from + i));
  if (i == n) return;
  float rest[N::lanes] = {};
  typename N::Scalar values[N::lanes];
  for (int lane = 0; lane < n - i; ++lane) rest[lane] = from[i + lane];
  N::store(values, N::take(rest));
  for (int lane = 0; lane < n - i; ++lane) to[i + lane] = values[lane];
}

// Fast: what computes as N does where held() says so, or void.
template <class N, class Fast, class Block, OrderRounding Rounding, OrderRounding Contracted>
OrderTiles<typename N::Scalar> make_order_tiles() {
  using T = typename N::Scalar;
  OrderTiles<T> t;
  t.width = 2 * N::lanes;
  t.chains = {Rounding, N::kFlush};
  t.others = {Contracted, N::kFlush};
  unroll<kOrderHeights>([&](auto h) ETALON_INLINE_LAMBDA {
    t.plain[h] = order_chain<N, 1 << h, false>;
    t.masked[h] = order_chain<N, 1 << h, true>;
    if constexpr (!std::is_void_v<Fast>) {
      if constexpr (Fast::kChains && requires { &Fast::check; })
        t.quick[h] = order_watched_chain<Fast, 1 << h>;
      else if constexpr (Fast::kChains)
        t.quick[h] = order_chain<Fast, 1 << h, false>;
    }
    if constexpr (sizeof(T) == 8) t.plain_of_f32[h] = order_chain<N, 1 << h, false, true>;
    t.sums[0][h] = order_sum<N, OrderTerm::value, 1 << h>;
    t.sums[1][h] = order_sum<N, OrderTerm::magnitude, 1 << h>;
    t.sums[2][h] = order_sum<N, OrderTerm::square, 1 << h>;
    t.sums[3][h] = order_sum<N, OrderTerm::product, 1 << h>;
    t.sums[4][h] = order_sum<N, OrderTerm::result, 1 << h>;
    t.sums[5][h] = order_sum<N, OrderTerm::result_square, 1 << h>;
  });
  unroll<kOrderPairs>([&](auto d) ETALON_INLINE_LAMBDA {
    t.pairs[d] = order_pairs<N, d + 1, false>;
    if constexpr (sizeof(T) == 8) t.pairs_of_f32[d] = order_pairs<N, d + 1, false, false, true>;
    constexpr bool kDown = Rounding == OrderRounding::down;
    t.masked_pairs[d] = order_pairs<N, d + 1, true, kDown>;
    if constexpr (!std::is_void_v<Fast>) t.quick_pairs[d] = order_quick_pairs<Fast, d + 1>;
    t.sum_pairs[0][d] = order_sum_pairs<N, OrderTerm::value, d + 1>;
    t.sum_pairs[1][d] = order_sum_pairs<N, OrderTerm::magnitude, d + 1>;
    t.sum_pairs[2][d] = order_sum_pairs<N, OrderTerm::square, d + 1>;
    t.sum_pairs[3][d] = order_sum_pairs<N, OrderTerm::product, d + 1>;
    t.sum_pairs[4][d] = order_sum_pairs<N, OrderTerm::result, d + 1>;
    t.sum_pairs[5][d] = order_sum_pairs<N, OrderTerm::result_square, d + 1>;
  });
  if constexpr (N::kSettles || sizeof(T) == 8) {
    t.across[1][0] = order_across<N, true>;
    unroll<kOrderPairs>([&](auto d) ETALON_INLINE_LAMBDA {
      t.across[1][d + 1] = order_pairs_across<N, d + 1, true>;
    });
  }
  if constexpr (N::kSettles) {
    t.across[0][0] = order_across<N, false>;
    unroll<kOrderPairs>([&](auto d) ETALON_INLINE_LAMBDA {
      t.across[0][d + 1] = order_pairs_across<N, d + 1, false>;
      if constexpr (requires { &Fast::check; }) {
        t.quick_across[0][d] = order_quick_across<Fast, d + 1, false>;
        t.quick_across[1][d] = order_quick_across<Fast, d + 1, true>;
      }
    });
  }
  if constexpr (N::kSettles && Contracted == OrderRounding::nearest) {
    t.held = order_held<N>;
    t.negative_zeros = N::kNegativeZeros;
  }
  if constexpr (requires { Fast::kVanishing; }) t.vanishing = Fast::kVanishing;
  t.add_zero = [](T* a, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes) N::store(a + i, N::add_zero(N::load(a + i)));
  };
  t.add = [](T* a, const T* b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::flushed(N::add(N::load(a + i), N::load(b + i))));
  };
  t.scale = [](T* a, T s, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::flushed(N::mul(N::set1(s), N::load(a + i))));
  };
  t.scale_add = [](T* a, T s, const T* c, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::flushed(N::fma(N::set1(s), N::load(c + i), N::load(a + i))));
  };
  t.each[0] = order_each<N, OrderEach::add>;
  t.each[1] = order_each<N, OrderEach::sub>;
  t.each[2] = order_each<N, OrderEach::mul>;
  t.each[3] = order_each<N, OrderEach::div>;
  t.each[4] = order_each<N, OrderEach::fma>;
  t.each[5] = order_each<N, OrderEach::max>;
  t.divide = [](T* a, const T* d, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::flushed(N::div(N::load(a + i), N::load(d + i))));
  };
  t.root = [](T* a, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::flushed(N::sqrt(N::load(a + i))));
  };
  t.enter = order_enter<N>;
  if constexpr (N::kSettles) t.settle = [](float* x, std::int64_t n) { order_enter<N>(x, x, n); };
  if constexpr (N::kFlushedByUse)
    t.flush = [](T* a, std::int64_t n) {
      for (std::int64_t i = 0; i < n; i += N::lanes) N::store(a + i, N::flushed(N::load(a + i)));
    };
  t.leave = [](const T* from, float* to, std::int64_t n) {
    std::int64_t i = 0;
    for (; i + N::lanes <= n; i += N::lanes) N::template out<N::kFlush>(to + i, N::load(from + i));
    if (i == n) return;
    T values[N::lanes] = {};
    float rest[N::lanes];
    for (int lane = 0; lane < n - i; ++lane) values[lane] = from[i + lane];
    N::template out<N::kFlush>(rest, N::load(values));
    for (int lane = 0; lane < n - i; ++lane) to[i + lane] = rest[lane];
  };
  t.gather = [](const T* from, const std::int32_t* offset, std::uint32_t mask, T* to) {
    N::store(to, N::gather(from, offset, mask));
    N::store(to + N::lanes, N::gather(from, offset + N::lanes, mask >> N::lanes));
  };
  t.block = Block::lanes;
  t.turn = order_turn<Block>;
  return t;
}

// All arithmetics of one instruction set: over f32, f64, and formats of f16 and bf16 that round as
// they are told. FmaRounding is what fma_odd asks of the processor.
template <class F32, class F64, template <OrderRounding> class F16,
          template <OrderRounding> class BF16, OrderRounding FmaRounding>
struct OrderArithmetics {
  static const OrderTiles<float>& in_f32(const OrderArithmetic& a) {
    switch (a.acc) {
      case DType::f16:
        return narrow<F16>(a);
      case DType::bf16:
        return narrow<BF16>(a);
      default:
        return wide<F32>(a);
    }
  }
  static const OrderTiles<double>& in_f64(const OrderArithmetic& a) { return wide<F64>(a); }

 private:
  template <class N, OrderRounding Rounding, OrderRounding Contracted, class Fast = void>
  static const OrderTiles<typename N::Scalar>& made() {
    static const OrderTiles<typename N::Scalar> tiles =
        make_order_tiles<N, Fast, F32, Rounding, Contracted>();
    return tiles;
  }
  // f(arithmetic's rounding as a constant)
  template <class F>
  static const auto& with_rounding(OrderRounding rounding, F&& f) {
    using R = OrderRounding;
    switch (rounding) {
      case R::down:
        return f(std::integral_constant<R, R::down>{});
      case R::up:
        return f(std::integral_constant<R, R::up>{});
      case R::zero:
        return f(std::integral_constant<R, R::zero>{});
      default:
        return f(std::integral_constant<R, R::nearest>{});
    }
  }
  template <class V>
  static const auto& wide(const OrderArithmetic& a) {
    return with_rounding(a.rounding, [&](auto r) -> const auto& {
      constexpr OrderRounding kRounding = decltype(r)::value;
      if (a.flush)
        return a.fma ? made<PlainArithmetic<V, true, true>, kRounding, kRounding>()
                     : made<PlainArithmetic<V, false, true>, kRounding, kRounding>();
      return a.fma ? made<PlainArithmetic<V, true, false>, kRounding, kRounding>()
                   : made<PlainArithmetic<V, false, false>, kRounding, kRounding>();
    });
  }
  template <template <OrderRounding> class Format>
  static const OrderTiles<float>& narrow(const OrderArithmetic& a) {
    return with_rounding(a.rounding, [&](auto r) -> const auto& {
      constexpr OrderRounding kRounding = decltype(r)::value;
      constexpr OrderRounding kFma = kRounding == OrderRounding::nearest ? FmaRounding : kRounding;
      using V = Format<kRounding>;
      constexpr bool kQuickFlushed = kRounding == OrderRounding::nearest && !V::kLikeF32;
      if constexpr (kQuickFlushed)
        if (a.flush)
          return a.fma
                     ? made<Narrow<V, true, true>, kFma, kRounding, QuickFlushed<V, true>>()
                     : made<Narrow<V, false, true>, kRounding, kRounding, QuickFlushed<V, false>>();
      if (a.flush)
        return a.fma ? made<Narrow<V, true, true>, kFma, kRounding>()
                     : made<Narrow<V, false, true>, kRounding, kRounding>();
      if constexpr (kRounding == OrderRounding::nearest)
        return a.fma ? made<Narrow<V, true, false>, kFma, kRounding, Quick<V, true>>()
                     : made<Narrow<V, false, false>, kRounding, kRounding, Quick<V, false>>();
      else
        return a.fma ? made<Narrow<V, true, false>, kRounding, kRounding>()
                     : made<Narrow<V, false, false>, kRounding, kRounding>();
    });
  }
};

}  // namespace etalon::simd
