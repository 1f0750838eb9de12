// Chains and joins of kernels/gemm/order.h over an arithmetic N: Scalar, Reg, Mask, lanes; load,
// store, zero, set1, from_bits, add, mul, fma, fma under a mask, gather. Included only by the files
// of one instruction set each.
#pragma once

#include "kernels/gemm/order_chain.h"
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

}  // namespace etalon::simd
