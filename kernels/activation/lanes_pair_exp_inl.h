// e^z in pairs of floats (lanes_pair_base_inl.h): what the functions made of it begin with.
//
// Half an ulp of a number below 2^k is at most 2^(k-25): that is what each operation below may err
// by, and what is not mentioned is below 2^-46 of the result. The bounds of the tests are at least
// four thirds of what is derived.
//
// **e^z** = S (1 + r + q), z = w ln2 + r + rest. t = z log2(e) + M, M = 2^18 + an integer; in
// [2^18, 2^19) the last place of a float is 1/32, so w = t - M is z log2(e) rounded to 32nds, and
// t's low bits say which of the 32 powers 2^(j/32) and (32 k + j in all) which exponent are meant.
//   r = z - w L, L = ln2 to 24 bits: exact. |r| <= ln2/64 + 2^-18 < 2^-6; w = 0, or |z| > 2^-7 and
//     everything is a multiple of 2^-30.
//   rest = -w (ln2 - L) + log(2^(j/32)/T), T the power rounded to f32: below 2^-21.5.
//   S = 2^k T.
//   q = rest + s (1/2 + s' ...): with a = r + rest and s = a^2, e^(r + rest) - 1 - r less rest is
//     s/2 + c3 a^3 + c4 a^4, the coefficients from polynomials.h.
// With 32 powers q is below 2^-14 and errs by a's rounding, 2^-31 times e^a - 1 < 0.011 (5.1e-12),
// that of s, half of 2^-38 (1.8e-12), of the polynomial 1/2 + ..., 2^-25 s (3.5e-12), of the sum,
// 2^-39 (1.8e-12), and by the approximation (0.65e-12): together 1.3e-11.
//
// **By 8 powers**, all that a register of AVX2 holds: M = 2^20 + an integer, w in 8ths, |r| <=
// ln2/16 + 2^-18 < 0.0434 in multiples of 2^-28, a term more. q is below 2^-10 and errs by a's
// rounding, 2^-29 times 0.0444 (8.3e-11), s by half of 2^-34 (2.9e-11), 1/2 + ... by 2^-25 s
// (5.6e-11), the sum by 2^-35 (2.9e-11), the approximation (3e-12): together 2e-10. What is said of
// q and of bounds beside functions holds for 32 powers, and for 8 where it says so. There (H, L), H
// + L = e^z, errs by L's rounding too, 2^-24 of 2^-10: 2.6e-10; where L's size would count, H + L
// is rounded again to a pair, so that |L| <= 2^-24 H (`tight`).
#pragma once

#include <array>
#include <bit>

#include "kernels/activation/lanes_pair_base_inl.h"
#include "kernels/activation/polynomials.h"

namespace etalon {

template <class F>
struct PairExp {
  static constexpr bool k32 = F::kEntryBits == 5;  // else 8 powers
  static_assert(k32 || F::kEntryBits == 3);
  static constexpr float kUnit = k32 ? 0x1p18F : 0x1p20F;
  static constexpr float kLog2e = 0x1.715476p0F;
  static constexpr float kLn2 = 0x1.62e430p-1F, kLn2Rest = -0x1.05c610p-29F;  // ln2 - kLn2

  template <class V>
  struct Power {
    typename V::Reg t, w, r, q;
  };
  // z or -z is x, or x and the numbers of `low` together. kOffset: M is kUnit + kOffset.
  template <class V, int kOffset, bool kNegative, class... Low>
  ETALON_INLINE static Power<V> reduced(const typename V::Reg& x, const Low&... low) {
    using R = typename V::Reg;
    const R m = V::c(kUnit + kOffset);
    const R t = V::fma(x, V::c(kNegative ? -kLog2e : kLog2e), m);
    const R w = V::sub(t, m);
    R r;
    if constexpr (kNegative)
      r = V::fnms(w, V::c(kLn2), x);
    else
      r = V::fnma(w, V::c(kLn2), x);
    R rest = V::fnma(w, V::c(kLn2Rest), V::entry(kRests.data(), t));
    ((rest = kNegative ? V::sub(rest, low) : V::add(rest, low)), ...);
    const R a = V::add(r, rest), s = V::mul(a, a);
    R c;
    if constexpr (k32) {
      constexpr auto& p = polynomials::kPairExp;
      c = V::fma(a, V::c(p[1]), V::c(p[0]));
    } else {
      constexpr auto& p = polynomials::kPairExpEighth;
      c = V::fma(V::fma(a, V::c(p[2]), V::c(p[1])), a, V::c(p[0]));
    }
    c = V::fma(c, a, V::c(0.5F));
    return {t, w, r, V::fma(s, c, rest)};
  }
  // Lanes of t that are not in [kUnit, kUnit + 2^kSpan).
  template <class V, int kSpan>
  ETALON_INLINE static std::uint64_t outside(const typename V::Reg& t) {
    return V::template outside<kSpan + F::kEntryBits>(t, kUnit);
  }
  // H + L as a pair again, |L| <= 2^-24 H.
  template <class V>
  ETALON_INLINE static void tight(typename V::Reg& high, typename V::Reg& low) {
    const auto sum = V::add(high, low);
    low = V::sub(low, V::sub(sum, high));
    high = sum;
  }
  // An entry of each power; of 32 each fourth where there are 8.
  template <class Entry, class Of>
  static constexpr auto powers(Of of) {
    std::array<Entry, 1 << F::kEntryBits> all{};
    for (std::uint32_t j = 0; j < all.size(); ++j) all[j] = of(j, k32 ? j : 4 * j);
    return all;
  }
  static constexpr auto kRests =
      powers<float>([](std::uint32_t, std::uint32_t j) { return polynomials::kPairPowerRest[j]; });
  // The bits of 2^(j/32 - kOffset) less j 2^18: with 2^18 (32 (k + kOffset) + j) added, t's low
  // bits, those of S. So with 8 and 2^20.
  template <int kOffset>
  static constexpr auto kPowers = powers<std::uint32_t>([](std::uint32_t j, std::uint32_t j32) {
    return std::bit_cast<std::uint32_t>(polynomials::kPairPower[j32]) -
           (j << (23 - F::kEntryBits)) - (std::uint32_t{kOffset} << 23);
  });
};

}  // namespace etalon
