// Chains and joins of kernels/gemm/order.h over an arithmetic N: Scalar, Reg, Mask, lanes; load,
// store, zero, set1, from_bits, raw, take, add, mul, fma, fma under a mask, div, sqrt, gather.
#pragma once

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

}  // namespace etalon::simd
