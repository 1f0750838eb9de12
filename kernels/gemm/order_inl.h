// The table of an arithmetic's functions (kernels/gemm/order_chain.h), and the arithmetics of one
// instruction set. Included only by the files of one instruction set each.
#pragma once

#include <type_traits>

#include "kernels/gemm/order_chains_inl.h"
#include "kernels/gemm/order_trees_inl.h"

namespace etalon::simd {

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

// An operation's result, flushed where only its use would do that.
template <class N>
ETALON_INLINE typename N::Reg order_done(typename N::Reg v) {
  if constexpr (N::kFlushedByUse)
    return N::flushed(v);
  else
    return v;
}

// OrderTiles::bound and within, over an arithmetic with bounds.
template <class N>
typename N::Scalar order_bound(const typename N::Scalar* from, std::int64_t rows, std::int64_t step,
                               std::int64_t count) {
  using Reg = typename N::Reg;
  Reg all = N::bound();
  const typename N::Mask rest = N::first(static_cast<int>(count % N::lanes));
  for (std::int64_t r = 0; r < rows; ++r, from += step) {
    std::int64_t i = 0;
    for (; i + N::lanes <= count; i += N::lanes) all = N::bound(all, N::Plain::load(from + i));
    if (i < count) all = N::bound(all, N::Plain::load(from + i, rest));
  }
  typename N::Scalar lanes[N::lanes];
  N::Plain::store(lanes, all);
  for (const auto lane : lanes) all = N::meet(all, N::set1(lane));
  N::Plain::store(lanes, all);
  return lanes[0];
}
template <class N>
bool order_within(typename N::Scalar a, typename N::Scalar b) {
  return N::to_bits(N::is_nan(N::marked(N::zero(), N::set1(a), N::held(N::set1(b))))) == 0;
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
        r = N::flushed(N::max_keep(x, y));
      N::store(to + i, order_done<N>(r));
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
      if constexpr (requires { Fast::bound(); }) {
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
  if constexpr (requires { Fast::bound(); }) {
    t.bound = order_bound<Fast>;
    t.within = order_within<Fast>;
  }
  t.add_zero = [](T* a, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes) N::store(a + i, N::add_zero(N::load(a + i)));
  };
  t.add = [](T* a, const T* b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, order_done<N>(N::add(N::load(a + i), N::load(b + i))));
  };
  t.scale = [](T* a, T s, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, order_done<N>(N::mul(N::set1(s), N::load(a + i))));
  };
  t.scale_add = [](T* a, T s, const T* c, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, order_done<N>(N::fma(N::set1(s), N::load(c + i), N::load(a + i))));
  };
  t.each[0] = order_each<N, OrderEach::add>;
  t.each[1] = order_each<N, OrderEach::sub>;
  t.each[2] = order_each<N, OrderEach::mul>;
  t.each[3] = order_each<N, OrderEach::div>;
  t.each[4] = order_each<N, OrderEach::fma>;
  t.each[5] = order_each<N, OrderEach::max>;
  t.divide = [](T* a, const T* d, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, order_done<N>(N::div(N::load(a + i), N::load(d + i))));
  };
  t.root = [](T* a, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, order_done<N>(N::sqrt(N::load(a + i))));
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
  template <class V, OrderRounding Rounding, bool Fused>
  using Flushed = std::conditional_t<
      Rounding != OrderRounding::nearest, void,
      std::conditional_t<V::kLikeF32, QuickFlushedWide<V>, QuickFlushed<V, Fused>>>;
  template <template <OrderRounding> class Format>
  static const OrderTiles<float>& narrow(const OrderArithmetic& a) {
    return with_rounding(a.rounding, [&](auto r) -> const auto& {
      constexpr OrderRounding kRounding = decltype(r)::value;
      constexpr OrderRounding kFma = kRounding == OrderRounding::nearest ? FmaRounding : kRounding;
      using V = Format<kRounding>;
      if (a.flush)
        return a.fma ? made<Narrow<V, true, true>, kFma, kRounding, Flushed<V, kRounding, true>>()
                     : made<Narrow<V, false, true>, kRounding, kRounding,
                            Flushed<V, kRounding, false>>();
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
