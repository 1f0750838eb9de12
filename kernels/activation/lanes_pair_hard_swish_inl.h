// hard_swish in pairs of floats (lanes_pair_base_inl.h).
#pragma once

#include "kernels/activation/lanes_pair_base_inl.h"

namespace etalon {

// x (x + 3)/6 where that is below x, or below -0 for x < 0: above 3 it is more than x, below -3
// more than 0, so that the smaller of it and max(x, -0) is the function.
//   m = x/6 (1 - 2^-22) rounded, p = 1/2 + m rounded, q = 1/2 - p: exact from -3 on, for p is
//   exact where it is below 1/4 (m a multiple of 2^-26 below -1/4), and else by Sterbenz. r = 6 q
//   + x is exact too, below 2^-22 + 2^-21 |x| and a multiple of the smaller of 2^-25 and x's last
//   place; and (x + 3)/6 = p + r/6. l = m r is x r/6 (1 - 2^-22) but for two roundings and that
//   of the constant: x r/6 lies between l (1 + 2^-24) and l (1 + 2^-21).
// The result x p + l is one fma of either end. They differ for one element in 10^5, more near -3,
// where p is small, and at -3. Below it q may be rounded, which only makes a positive number
// another. l may underflow where |x| < 2^-61: there x p is x/2, exactly a float down to 2^-125,
// and whatever is positive below its last place rounds alike. What is smaller is left open; so
// are infinities and squares that overflow, the difference of both ends being none. Zeros: l has
// the sign of m, which is x's, so that a zero result has it too.
template <class F>
struct PairHardSwish {
  static constexpr int kVectors = F::kEntryBits == 5 ? 2 : 4;
  template <class V>
  struct Parts {
    typename V::Reg p, l;
  };
  template <class V>
  ETALON_INLINE static Parts<V> parts(const typename V::Reg& x) {
    using R = typename V::Reg;
    const R half = V::c(0.5F), m = V::mul(x, V::c(0x1.555550p-3F));
    const R p = V::add(half, m), r = V::fma(V::c(6), V::sub(half, p), x);
    return {p, V::mul(m, r)};
  }
  // The ends; what is stored is `below`, limited.
  template <class V>
  ETALON_INLINE static void ends(const typename V::Reg& x, const Parts<V>& of,
                                 typename V::Reg& below, typename V::Reg& above) {
    below = V::fma(x, of.p, of.l);
    above = V::fma(x, of.p, V::mul(of.l, V::c(1 + 0x1p-21F)));
  }
  template <class V>
  ETALON_INLINE static typename V::Reg limited(const typename V::Reg& x, const typename V::Reg& y) {
    return V::min(y, V::max(V::c(-0.0F), x));
  }
  template <int K>
  ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
    using V = Several<F, K>;
    typename V::Reg below, above;
    ends<V>(x, parts<V>(x), below, above);
    const auto y = limited<V>(x, below);
    if (!V::any_differs(below, above) && !V::any_tiny(x, 0x1p-125F)) [[likely]]
      return {y, 0};
    return {y, V::differ(below, above) | V::tiny(x, 0x1p-125F)};
  }

  // Over arrays that are not the same: what is tiny shows in the processor's flags, since its
  // half or l underflow, once for a block, which is then done again; and ends are compared once
  // for kGroup vectors, one after another.
  template <class Doubles>
  static std::int64_t run(const float* x, float* y, std::int64_t count, const Doubles& doubles) {
    using V = Several<F, 1>;
    constexpr int kGroup = 64 / V::lanes;
    constexpr std::int64_t kBlock = 16384, kStep = kGroup * V::lanes;
    std::int64_t refused = 0;
    while (x != y && count >= kStep) {
      const std::int64_t n = (count < kBlock ? count : kBlock) / kStep * kStep;
      OpenElements<PairHardSwish, Itself> open(x, y);
      F::forget_underflow();
      for (std::int64_t k = 0; k < n; k += kStep) {
        auto differences = F::no_bits();
        simd::unroll<kGroup>([&](auto j) ETALON_INLINE_LAMBDA {
          const auto v = V::load(x + k + j * V::lanes);
          typename V::Reg below, above;
          ends<V>(v, parts<V>(v), below, above);
          V::store(y + k + j * V::lanes, limited<V>(v, below));
          differences = F::bits_or(differences, V::differences(below, above));
          F::here(differences);  // not behind the group, from memory
        });
        if (!F::any_bit(differences, 0xffffffffU)) [[likely]]
          continue;
        unsigned slot = 0;
        refused += open.begin(k, kStep, {}, doubles, slot);
        open.lanes[slot] = apply<kGroup>(Several<F, kGroup>::load(x + k)).open;
      }
      const bool tiny = F::underflowed();
      refused += open.finish(doubles);
      if (tiny) refused += run_pairs<F, PairHardSwish>(x, y, n, doubles);
      x += n;
      y += n;
      count -= n;
    }
    return refused + run_pairs<F, PairHardSwish>(x, y, count, doubles);
  }
};

}  // namespace etalon
