// 1/(1 + e^-z) in pairs of floats and what is x times it: sigmoid, silu, gelu of the hyperbolic
// tangent. Errors as in lanes_pair_exp_inl.h, whose r, q, S and "by 8 powers" are meant here.
#pragma once

#include "kernels/activation/lanes_pair_exp_inl.h"

namespace etalon {

template <class F>
struct PairLogistic : PairExp<F> {
  using Base = PairExp<F>;
  using Base::k32;

  // 1/(high + low) = n (1 + u).
  template <class V>
  struct Inverse {
    typename V::Reg n, u;
  };
  template <class V>
  ETALON_INLINE static Inverse<V> inverse(const typename V::Reg& high, const typename V::Reg& low) {
    using R = typename V::Reg;
    const R n = V::near_reciprocal(high);
    const R e = V::fnma(low, n, V::fnma(high, n, V::c(1)));
    return {n, V::fma(k32 ? e : V::fma(e, e, e), e, e)};
  }

  // 1 + E = high + low, E = e^-x = S (1 + r + q) < 2^23:
  //   high = 1 + (S + S r rounded) rounded, low = ((1 - high) + S) + S r, which is what the two
  //   roundings left out, and S q. 1 - high is exact below 2^24; with S it is exact too, being near
  //   -S r in multiples of 2^-23 or of S's last place.
  // E errs by 1.3e-11 S, low, below 6.1e-5 (1 + E), by 3.6e-12 (1 + E): 1.7e-11 of the sum.
  //
  // 1/(1 + E) = n (1 + u): n is within 2^-14 of 1/high, e = 1 - n high, less n low, is below 2^-13,
  // and u = e + e^2. Roundings: 2^-39 and 2^-38 in e, 2^-38 in u, 2^-38 in u +- the bound; e^3 is
  // left out (1.8e-12): with the sum's 3.1e-11, tested with 4.7e-11.
  //
  // By 8 powers: low, below 2^-10 (1 + E), errs by 2^-34: 2.6e-10 of the sum. n is within 1.5 *
  // 2^-12, e below 0.00135, so that e^3 is added, too; three roundings of 2^-34 and one of 2^-36
  // and u +- the bound, 2^-34, e^4 3.4e-12: 2.5e-10. 5.1e-10, tested with 6.9e-10.
  template <class V>
  struct Logistic {
    typename V::Reg near, above, below;  // of 1/(1 + E): n and both bounds of u
    std::uint64_t open;
  };
  template <class V>
  ETALON_INLINE static Logistic<V> logistic(const typename V::Reg& x, float error) {
    using R = typename V::Reg;
    const auto [t, w, r, q] = Base::template reduced<V, 105, true>(x);
    const R power = V::power(Base::template kPowers<105>.data(), t), one = V::c(1);
    const R high = V::add(one, V::fma(power, r, power));
    const R left = V::fma(power, r, V::add(V::sub(one, high), power));
    const auto [n, u] = inverse<V>(high, V::fma(power, q, left));
    const R bound = V::c(error);
    return {n, V::add(u, bound), V::sub(u, bound), Base::template outside<V, 7>(t)};
  }
  // Of -15.9 < x < 72.
  struct Sigmoid {
    static constexpr int kVectors = k32 ? 4 : 3;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
      using V = Several<F, K>;
      const auto l = logistic<V>(x, k32 ? 0x1.ap-35F : 0x1.8p-31F);
      const auto above = V::fma(l.near, l.above, l.near), below = V::fma(l.near, l.below, l.near);
      return {above, V::differ(above, below) | l.open};
    }
  };
  // x n as a pair: its low part is exact from |x| = 2^-100 on, below which lanes are left open;
  // zeros keep their sign. high u + low, 2^-13 of the result, errs by 2^-37 of it, and u times the
  // low part is left out, 2^-37: with the 3.1e-11 of the logistic function 4.6e-11, tested
  // with 6.5e-11. By 8 powers u is below 0.00135: 8.1e-11 each, 6.7e-10, tested with 9e-10.
  struct Silu {
    static constexpr int kVectors = k32 ? 4 : 3;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      const auto l = logistic<V>(x, k32 ? 0x1.2p-34F : 0x1.fp-31F);
      const R high = V::mul(x, l.near), low = V::fms(x, l.near, high);
      const R above = V::add(high, V::fma(high, l.above, low));
      const R below = V::add(high, V::fma(high, l.below, low));
      return {V::with_sign(above, x), V::differ(above, below) | l.open | V::tiny(x, 0x1p-100F)};
    }
  };

  // x/(1 + E), E = e^-z, z = x g, g = S + K x^2, S = 2 sqrt(2/pi) = kS + kSRest, K = 0.044715 S =
  // kK + kKRest. x is held at -9; from 8 on z is that of 8, and the result x.
  //   x^2 is a pair. high g = kS + kK x^2 rounded, what that left out exact but for 2^-47: kS is a
  //   multiple of 2^-20 and g below 7.4, so that kS - high g has 24 bits. With the small products
  //   low g, below 9e-7, errs by 9e-14; z is a pair, too, and while it is below 64 its low part is
  //   below 1e-5 and it errs by 1.3e-12.
  //   1 + E as for `logistic`, but for any E: P = E's S + S r rounded, what it left out exact, and
  //   high = 1 + P, what it left out by Dekker's fast two-sum.
  // q, with z's low part in it, is below 2^-13.82. It errs by 1.3e-11, by 2^-39 more for its sum,
  // 2^-41 for what z adds to the rest, and z's: 1.66e-11. low, below 6.94e-5 (1 + E), errs by
  // 4.1e-12 (1 + E): 2^-37 of a power of two, 1.76 of which 1 + E is where low is above 2^-13 of
  // it. |e| is below 1.305e-4: 2^-39 and 2^-37 in e, 2^-37 in u, 2^-37 in u +- the bound, e^3
  // 2.2e-12. Together 4.7e-11; high u + low 7.8e-12 of the result, u times the low part 7.8e-12:
  // 6.3e-11, tested with 8.3e-11. By 8 powers q stays below 2^-10, and what is said of Silu holds
  // with z's 1.3e-12. From |x| = 2^-91 and n = 2^-91 on, below which lanes are left open, |z| is
  // below 64 and the low part of x n exact.
  struct GeluTanh {
    static constexpr int kVectors = 4;
    static constexpr float kS = 0x1.98845p0F, kSRest = 0x1.9ea1b2p-23F;
    static constexpr float kK = 0x1.2444f2p-4F, kKRest = 0x1.49b16ap-29F;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& element) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      const R one = V::c(1);
      const R x = V::max(V::c(-9), element), v = V::min(V::c(8), x);
      const R xx = V::mul(v, v), xx_rest = V::fms(v, v, xx);
      const R g = V::fma(xx, V::c(kK), V::c(kS));
      const R g_rest = V::add(V::fma(xx, V::c(kK), V::sub(V::c(kS), g)),
                              V::fma(xx_rest, V::c(kK), V::fma(xx, V::c(kKRest), V::c(kSRest))));
      const R z = V::mul(v, g), z_rest = V::fma(v, g_rest, V::fms(v, g, z));
      const auto p = Base::template reduced<V, 105, true>(z, z_rest);
      const R power = V::power(Base::template kPowers<105>.data(), p.t);
      const R large = V::fma(power, p.r, power), high = V::add(one, large);
      const R left = V::add(V::fma(power, p.r, V::sub(power, large)),
                            V::add(V::sub(V::max(one, large), high), V::min(one, large)));
      const auto [n, u] = inverse<V>(high, V::fma(power, p.q, left));
      const R bound = V::c(k32 ? 0x1.6ep-34F : 0x1.fp-31F);
      const R y = V::mul(x, n), low = V::fms(x, n, y);
      const R above = V::add(y, V::fma(y, V::add(u, bound), low));
      const R below = V::add(y, V::fma(y, V::sub(u, bound), low));
      return {V::with_sign(above, element),
              V::differ(above, below) | V::tiny(V::min(n, V::abs(element)), 0x1p-91F)};
    }
  };
};

}  // namespace etalon
