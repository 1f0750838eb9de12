// Chains and joins of kernels/gemm/order.h over an arithmetic N: Scalar, Reg, Mask, lanes; load,
// store, zero, set1, from_bits, add, mul, fma, fma under a mask, gather. Included only by the files
// of one instruction set each.
//
// f16 and bf16 accumulators live in f32 registers (Narrow). An operation on them is computed in
// f32, to nearest, and that rounded to the narrow format. For sums and products of two numbers this
// is one rounding, since f32 has 2q + 2 bits or more, q those of the format (Figueroa, "When is
// double rounding innocuous?", SIGNUM 30(3), 1995), but for products of bf16 that are subnormal in
// f32. For a fused multiply-add it is not: between two neighbours of the narrow format lies one
// point where the result changes, their midpoint; it is an f32, and rounding to f32 takes nothing
// across an f32. So the two roundings are one, unless the first ends on a midpoint: then the
// operation is done again in a way that knows the side (`settled_*`). Of random results one in 2^16
// (bf16) or 2^13 (f16) is such; where sums are exact more are, which costs time and no bit.
#pragma once

#include <type_traits>

#include "kernels/gemm/order_tiles.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// Vectors of V as they are, products fused into the sum or rounded before.
template <class V, bool Fused>
struct PlainArithmetic : V {
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
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

// Results below the smallest normal number become zeros of their sign, as V::flush does it.
template <class V>
struct Flushing : V {
  using Reg = typename V::Reg;
  using Mask = typename V::Mask;
  ETALON_INLINE static Reg add(Reg a, Reg b) { return V::flush(V::add(a, b)); }
  ETALON_INLINE static Reg mul(Reg a, Reg b) { return V::flush(V::mul(a, b)); }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) { return V::flush(V::fma(a, b, c)); }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return V::select(m, fma(a, b, c), c);
  }
  ETALON_INLINE static Reg add_where(Mask m, Reg c, Reg x) { return V::select(m, add(c, x), c); }
};

// Format: to_nearest(x) of an f32, ties to even; of results that are in doubt round_*(near,
// rounded) gives the lanes where that is not enough, settled_* the result in these lanes at least;
// flush as above.
template <class Format, bool Fused, bool Flush>
struct Narrow : Format {
  using Reg = typename Format::Reg;
  using Mask = typename Format::Mask;
  ETALON_INLINE static Reg add(Reg a, Reg b) {
    return flush(Format::to_nearest(Format::add(a, b)));
  }
  ETALON_INLINE static Reg mul(Reg a, Reg b) {
    const Reg near = Format::mul(a, b);
    if constexpr (Format::kExactProducts) {
      return flush(Format::to_nearest(near));
    } else {
      Reg rounded;
      const Mask open = Format::round_product(near, rounded);
      if (Format::to_bits(open) != 0) [[unlikely]]
        rounded = Format::settled_product(open, a, b, rounded);
      return flush(rounded);
    }
  }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) {
    if constexpr (!Fused) {
      return add(c, mul(a, b));
    } else {
      Reg rounded;
      const Mask open = Format::round_fma(Format::fma(a, b, c), rounded);
      if (Format::to_bits(open) != 0) [[unlikely]]
        rounded = Format::settled_fma(open, a, b, c, rounded);
      return flush(rounded);
    }
  }
  ETALON_INLINE static Reg fma(Mask m, Reg a, Reg b, Reg c) {
    return Format::select(m, fma(a, b, c), c);
  }

 private:
  ETALON_INLINE static Reg flush(Reg v) {
    if constexpr (Flush)
      return Format::flush(v);
    else
      return v;
  }
};

template <class N, int R, bool Masked>
void order_chain(const OrderChain<typename N::Scalar>& t) {
  using T = typename N::Scalar;
  using Reg = typename N::Reg;
  constexpr int kWidth = 2 * N::lanes;
  Reg acc[R][2];
  if (t.resume) {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
      acc[r][0] = N::load(t.tile + r * kWidth);
      acc[r][1] = N::load(t.tile + r * kWidth + N::lanes);
    });
  } else {
    unroll<R>([&](auto r) ETALON_INLINE_LAMBDA { acc[r][0] = acc[r][1] = N::zero(); });
  }
  const T* a = t.a;
  const T* b = t.b;
  const std::uint32_t* mask = t.mask;
  const std::int64_t a_step = t.a_step, b_step = t.b_step, mask_step = t.mask_step;
  for (std::int64_t k = 0; k < t.count; ++k) {
    const Reg b0 = N::load(b), b1 = N::load(b + N::lanes);
    if constexpr (Masked) {
      const typename N::Mask m0 = N::from_bits(*mask), m1 = N::from_bits(*mask >> N::lanes);
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        const Reg x = N::set1(a[r]);
        acc[r][0] = N::fma(m0, x, b0, acc[r][0]);
        acc[r][1] = N::fma(m1, x, b1, acc[r][1]);
      });
      mask += mask_step;
    } else {
      unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
        const Reg x = N::set1(a[r]);
        acc[r][0] = N::fma(x, b0, acc[r][0]);
        acc[r][1] = N::fma(x, b1, acc[r][1]);
      });
    }
    a += a_step;
    b += b_step;
  }
  unroll<R>([&](auto r) ETALON_INLINE_LAMBDA {
    N::store(t.tile + r * kWidth, acc[r][0]);
    N::store(t.tile + r * kWidth + N::lanes, acc[r][1]);
  });
}

template <class N>
OrderTiles<typename N::Scalar> make_order_tiles() {
  using T = typename N::Scalar;
  OrderTiles<T> t;
  t.width = 2 * N::lanes;
  unroll<kOrderHeights>([&](auto h) ETALON_INLINE_LAMBDA {
    t.plain[h] = order_chain<N, 1 << h, false>;
    t.masked[h] = order_chain<N, 1 << h, true>;
  });
  t.add = [](T* a, const T* b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::add(N::load(a + i), N::load(b + i)));
  };
  t.scale = [](T* a, T s, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::mul(N::set1(s), N::load(a + i)));
  };
  t.scale_add = [](T* a, T s, const T* c, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += N::lanes)
      N::store(a + i, N::fma(N::set1(s), N::load(c + i), N::load(a + i)));
  };
  t.gather = [](const T* from, const std::int32_t* offset, std::uint32_t mask, T* to) {
    N::store(to, N::gather(from, offset, mask));
    N::store(to + N::lanes, N::gather(from, offset + N::lanes, mask >> N::lanes));
  };
  return t;
}

template <class N>
const OrderTiles<typename N::Scalar>& order_tiles() {
  static const OrderTiles<typename N::Scalar> made = make_order_tiles<N>();
  return made;
}

// All arithmetics of one instruction set: over f32, f64, and Formats of f16 and bf16.
template <class F32, class F64, class F16, class BF16>
struct OrderArithmetics {
  template <class V, bool Fused, bool Flush>
  using Plain = PlainArithmetic<std::conditional_t<Flush, Flushing<V>, V>, Fused>;
  template <bool Fused, bool Flush>
  using InF32 = Plain<F32, Fused, Flush>;
  template <bool Fused, bool Flush>
  using InF64 = Plain<F64, Fused, Flush>;
  template <bool Fused, bool Flush>
  using InF16 = Narrow<F16, Fused, Flush>;
  template <bool Fused, bool Flush>
  using InBF16 = Narrow<BF16, Fused, Flush>;

  static const OrderTiles<float>& in_f32(const OrderArithmetic& a) {
    return a.acc == DType::f16 ? of<InF16>(a) : a.acc == DType::bf16 ? of<InBF16>(a) : of<InF32>(a);
  }
  static const OrderTiles<double>& in_f64(const OrderArithmetic& a) { return of<InF64>(a); }

 private:
  template <template <bool Fused, bool Flush> class N>
  static const auto& of(const OrderArithmetic& a) {
    if (a.flush) return a.fma ? order_tiles<N<true, true>>() : order_tiles<N<false, true>>();
    return a.fma ? order_tiles<N<true, false>>() : order_tiles<N<false, false>>();
  }
};

}  // namespace etalon::simd
