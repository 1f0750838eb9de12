// Functions of lanes.h in pairs of floats (lanes_pair_base_inl.h): what is made of one exponential,
// here, and those of the headers beside. Errors as in lanes_pair_exp_inl.h.
#pragma once

#include "kernels/activation/lanes.h"
#include "kernels/activation/lanes_pair_erf_inl.h"
#include "kernels/activation/lanes_pair_gelu_inl.h"
#include "kernels/activation/lanes_pair_hard_swish_inl.h"
#include "kernels/activation/lanes_pair_logistic_inl.h"
#include "kernels/activation/polynomials.h"

namespace etalon {

template <class F>
struct LanePair : PairLogistic<F> {
  using Base = PairLogistic<F>;
  using Base::k32;
  using typename Base::Sigmoid, typename Base::Silu, typename Base::GeluTanh;

  // S without its exponent, so that nothing under- or overflows before the last step:
  //   high = T + T r rounded, low = (T r - (high - T)) + T q; the difference is exact (Sterbenz),
  //   and what the inner bracket rounds is high's rounding error, exact but for 2^-48.
  // low < 2^-13 errs by 2^-38 (3.7e-12), low +- the bound by as much, q by T times 1.3e-11, T < 2:
  // 3.4e-11, tested with 5.1e-11. |w| < 131; a result outside the normal floats, NaN and infinities
  // are left open, but for what overflows up to 2^131.
  //
  // By 8 powers with the exponent, 2^-100 <= S: q, low below 2^-10 S, low +- the bound, 2 * 2^-34
  // S, 3.2e-10 S, of a result that is 0.957 S at least: tested with 4.5e-10 of it. Where x is cut S
  // is infinite or NaN.
  struct Exp {
    static constexpr int kVectors = k32 ? 2 : 4;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      if constexpr (!k32) {
        const auto p = Base::template reduced<V, 100, false>(V::min(V::c(88.8F), x));
        const R power = V::power(Base::template kPowers<100>.data(), p.t);
        const R high = V::fma(power, p.r, power);
        const R low = V::fma(power, p.q, V::fms(power, p.r, V::sub(high, power)));
        const R error = V::c(0x1.fp-32F);
        const R above = V::add(high, V::fma(high, error, low));
        const R below = V::add(high, V::fnma(high, error, low));
        return {above, V::differ(above, below) | Base::template outside<V, 8>(p.t)};
      } else {
        const auto [t, w, r, q] = Base::template reduced<V, 125, false>(x);
        const R power = V::entry(polynomials::kPairPower, t);
        const R high = V::fma(power, r, power);
        const R low = V::fma(power, q, V::fms(power, r, V::sub(high, power)));
        const R bound = V::c(0x1.cp-35F);
        const R above = V::add(high, V::add(low, bound)), below = V::add(high, V::sub(low, bound));
        return {V::times_power(above, w),
                V::differ(above, below) | Base::template outside<V, 8>(t)};
      }
    }
  };

  // N/(2 - N), N = 1 - E, E = e^(-2|x|) = S (1 + r + q), |x| >= 2^-13:
  //   h = 1 - (S + S r rounded) rounded, l = ((1 - h) - S) - S r, which is what the two roundings
  //   left out, below 2^-24, and - S q: as in `logistic`, N = h + l to S times 1.3e-11 and 2^-39.
  //   2 - N = d + d', and its reciprocal n (1 + u) as there.
  //   l' = l + (h + l) u; the result is n h + n l', the first product exact in the last fma.
  // N's error counts 2/(2 - N)^2 times: 7.7e-12 at most. The reciprocal: 2^-39 in d', 2^-39 and
  // 2^-38 in e, 2^-38 in u, e^3: 1.3e-11 of the result. h + l by u, l', n l' and that with the
  // bound, all below 2^-13: 2^-38 each. Together 3.5e-11, tested with 4.7e-11.
  //
  // Where N is small that is too much. For S = 1 (rest is 0 and a exact) q's error and l's rounding
  // are |r| 2^-24 of r for s and q together, |r| 2^-25 for the polynomial, |r| 2^-25 for l, |r|
  // below 0.0109, and 7e-11 for the rest: 1.4e-9 of N. l', n l' and that with the bound, below
  // 0.0057 of h and the result, err by 2^-24 of themselves: 2.5e-9 of the result, which is half of
  // N, tested with 1.7e-9 N. At the next S, where N is 0.0108, the 1.06e-11 that are left of the
  // first sum are less.
  //
  // |x| is cut at 20, where the result is 1. Below 2^-13 it is x: what x^3/3 takes away is less
  // than 2^-27.5 of it.
  struct Tanh {
    static constexpr int kVectors = 4;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      const R size = V::abs(x), half = V::min(V::c(20), size);
      const auto p = Base::template reduced<V, 64, true>(V::add(half, half));
      const R power = V::power(Base::template kPowers<64>.data(), p.t), one = V::c(1),
              two = V::c(2);
      const R h = V::sub(one, V::fma(power, p.r, power));
      const R left = V::fnma(power, p.r, V::sub(V::sub(one, h), power));
      const R l = V::fnma(power, p.q, left);
      const R d = V::sub(two, h), rest = V::sub(V::sub(V::sub(two, d), h), l);
      const R n = V::near_reciprocal(d);
      const R e = V::fnma(rest, n, V::fnma(d, n, one)), u = V::fma(e, e, e);
      const R low = V::mul(n, V::fma(V::add(h, l), u, l));
      const R bound = V::min(V::c(0x1.ap-35F), V::mul(h, V::c(0x1.dp-30F)));
      const R above = V::fma(n, h, V::add(low, bound)), below = V::fma(n, h, V::sub(low, bound));
      const auto computed = V::not_less(size, V::c(0x1p-13F));  // NaN too
      return {V::signed_where(computed, above, x), V::differ(computed, above, below)};
    }
  };

  // x where x > -2^-26 (x^2/2, less than 2^-27 of x, takes nothing from it), else -(1 - E), E =
  // e^x; alpha is 1. Below -60 the result is -1.
  //   tail + cut = 1 - S, exactly; high = tail - S r rounded; low = what that left out, + cut, - S
  //   q.
  // For S = 1 tail is 0 and high = -r; for every other one tail is 0.0214 at least and S |r| below
  // 0.0107, so that tail - high is exact. low, below 2^-14, errs by 2^-39, low +- the bound by as
  // much and q by S times 1.3e-11: 1.7e-11, tested with 2.3e-11. Where the result is small, as for
  // Tanh, 1.4e-9 of it and 2^-24 of 0.0055 of it for the last sum: 1.7e-9, tested with 2.3e-9.
  //
  // By 8 powers tail is 0.083 at least and S |r| below 0.0399; low, below 2^-10, errs by 2^-35, low
  // +- the bound by as much: 2.6e-10, tested with 3.5e-10. Where S = 1, so for all below 0.043,
  // |r| < 0.0434 times 2^-24 for s and q together, 2^-25 for the polynomial, 2^-25 for low, half
  // of 2^-24 for the last sum, and 1e-10: 6.7e-9 of the result, tested with 9e-9.
  struct Elu {
    static constexpr int kVectors = k32 ? 4 : 3;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      const auto p = Base::template reduced<V, 100, true>(V::min(V::c(60), V::abs(x)));
      const R power = V::power(Base::template kPowers<100>.data(), p.t), one = V::c(1);
      const R tail = V::sub(one, power), cut = V::sub(V::sub(one, tail), power);
      const R high = V::fnma(power, p.r, tail);
      const R left = V::fnma(power, p.r, V::sub(tail, high));
      const R low = V::fnma(power, p.q, V::add(left, cut));
      const R bound = V::min(V::c(k32 ? 0x1.ap-36F : 0x1.8p-32F),
                             V::mul(high, V::c(k32 ? 0x1.4p-29F : 0x1.38p-27F)));
      const R above = V::add(high, V::add(low, bound));
      const R below = V::add(high, V::sub(low, bound));
      const auto computed = V::not_less(V::c(-0x1p-26F), x);  // NaN too
      return {V::signed_where(computed, above, x), V::differ(computed, above, below)};
    }
  };

  // x t/(t + 2), t = e (e + 2), e = e^x = H + L as for Exp and tight, x held at -70, in e also at
  // 15: above it the quotient is 1.
  //   G + g = H + 2 exactly (2 - G is below 2^24), t = H G + t', t' = what that left out + H g + L
  //   (2 H + 2); t + 2 = d + d', the larger first. The quotient is c + c': c = t/d rounded, for fma
  //   are what the formula waits for, and a divider works beside them; c' = (t - c d, exactly, + t'
  //   - c d') n, n near 1/d. The result is x c + x c', the first product exact in the last fma.
  // e's error counts once at most (4 (e + 1)/((e + 2) (t + 2)) times): 1.7e-11. L^2, and what the
  // sums of small parts round, are next to nothing. c' is below 5 * 2^-24 of c (1 for the quotient,
  // 1 for d; 1 for t, 1 for G, L's 2 (H + 1)/(H + 2), these three 2/(t + 2) times), of which n's
  // 2^-14 is 1.8e-11: 3.5e-11, tested with 4.7e-11. By 8 powers 2.6e-10 and 1.1e-10, n being within
  // 1.5 * 2^-12: 3.7e-10, tested with 5.2e-10.
  // Results below 2^-88, those of x held at -70 among them, are left open: what is larger has no
  // subnormal part. Zeros keep their sign.
  struct Mish {
    static constexpr int kVectors = k32 ? 4 : 3;
    static constexpr int kNotes = 2;
    template <class V>
    ETALON_INLINE static typename V::Reg held(const typename V::Reg& x) {
      return V::max(V::c(-70), x);
    }
    template <int K>
    ETALON_INLINE static void first(const typename Several<F, K>::Reg& x, std::uint32_t* notes) {
      using V = Several<F, K>;
      const auto p = Base::template reduced<V, 104, false>(V::min(V::c(15), held<V>(x)));
      const auto power = V::power(Base::template kPowers<104>.data(), p.t);
      auto high = V::fma(power, p.r, power);
      auto low = V::fma(power, p.q, V::fms(power, p.r, V::sub(high, power)));
      Base::template tight<V>(high, low);
      V::template note<kNotes>(notes, 0, high);
      V::template note<kNotes>(notes, 1, low);
    }
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& element,
                                                const std::uint32_t* notes) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      const R h = V::template noted<kNotes>(notes, 0), l = V::template noted<kNotes>(notes, 1);
      const R x = held<V>(element), two = V::c(2);
      const R g = V::add(two, h), g_rest = V::add(V::sub(two, g), h);
      const R t = V::mul(h, g);
      const R t_rest = V::fma(l, V::add(h, g), V::fma(h, g_rest, V::fms(h, g, t)));
      const R d = V::add(t, two);
      const R d_rest = V::add(V::add(V::sub(V::max(t, two), d), V::min(t, two)), t_rest);
      const R n = V::near_reciprocal(d);
      const R c = V::div(t, d);
      const R rest = V::mul(n, V::add(V::fnma(c, d, t), V::fnma(c, d_rest, t_rest)));
      const R error = V::c(k32 ? 0x1.ap-35F : 0x1.2p-31F);
      const R more = V::fma(c, error, rest), less = V::fnma(c, error, rest);
      const R above = V::fma(x, c, V::mul(x, more)), below = V::fma(x, c, V::mul(x, less));
      return {V::with_sign(above, x), V::differ(above, below) | V::tiny(above, 0x1p-88F)};
    }
  };

  // max(x, 0) + log(1 + E), E = e^-|x| = H + low as for Exp, -72 < x < 72; log_sigmoid(x) is that
  // of -x, negated.
  //   31 E rounded is j; d = H - g_j exactly (Sterbenz); with 1/(1 + g_j) in one float, but for
  //   2^-40 of it, r = d/(1 + g_j) + low/(1 + g_j), the first quotient a product without error, |r|
  //   < 0.0163. log(1 + r) = r - s (1/2 - ...), s = r^2, and log(1 + g_j) is a sum of two floats;
  //   for j = 0 these are 0 and E itself is r, so that small results keep their relative error.
  //   Everything that is not small is added without error: log(1 + g_j) + d/(1 + g_j) by Dekker's
  //   fast two-sum, max(x, 0) and that by Knuth's.
  // Errors: in units of 2^-24 s: r rounded, 1, s by 1/2, 1/2, the polynomial, 1/2 and 1/8, its
  // product with s, which comes behind the sums of all other small parts, 1/2, and that with the
  // bound, 1/2: 3.2, tested with 4.25. Of the result: E's 1.7e-11 (the logarithm of a sum 1 + E
  // does not magnify them), low/(1 + g_j) and low in five sums, 2.1e-11: 3.8e-11, tested with
  // 4.7e-11.
  //
  // By 8 powers j is 64 E rounded, its four numbers are a row in memory, |r| < 0.0081, and (H, L)
  // is tight: 2.6e-10 of the result, tested with 3.5e-10.
  template <bool kLogSigmoid>
  struct Softplus {
    static constexpr int kVectors = 4;
    template <int K>
    ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x) {
      using V = Several<F, K>;
      using R = typename V::Reg;
      namespace tables = polynomials;
      constexpr auto& c = tables::kPairLog1p;
      const R size = V::abs(x), cut = k32 ? size : V::min(size, V::c(72));
      const auto p = Base::template reduced<V, 104, true>(cut);
      const R power = V::power(Base::template kPowers<104>.data(), p.t);
      R high = V::fma(power, p.r, power);
      R low = V::fma(power, p.q, V::fms(power, p.r, V::sub(high, power)));
      R row[4];  // g_j, 1/(1 + g_j), log(1 + g_j)
      std::uint64_t far = 0;
      if constexpr (k32) {
        const R j = V::fma(high, V::c(31.0F / 32), V::c(0x1p18F));
        row[0] = V::entry(tables::kPairLogAt, j);
        row[1] = V::entry(tables::kPairLogReciprocal, j);
        row[2] = V::entry(tables::kPairLog, j);
        row[3] = V::entry(tables::kPairLogRest, j);
        far = Base::template outside<V, 7>(p.t);
      } else {
        Base::template tight<V>(high, low);
        alignas(64) std::uint32_t places[V::lanes];
        V::store_places(places, V::fma(high, V::c(64), V::c(0x1p23F)));
        V::rows(tables::kPairLogRows[0], places, row);
        far = V::differ(size, cut);  // NaN too
      }
      const R d = V::sub(high, row[0]), reciprocal = row[1];
      const R r = V::mul(d, reciprocal);
      const R r_rest = V::fma(low, reciprocal, V::fms(d, reciprocal, r));
      const R a = V::add(r, r_rest), s = V::mul(a, a);
      const R q = V::fma(V::fma(V::fma(a, V::c(c[2]), V::c(c[1])), a, V::c(c[0])), a, V::c(-0.5F));
      const R log = row[2], sum = V::add(log, r);
      R rest = V::add(V::add(r_rest, row[3]), V::add(V::sub(log, sum), r));
      const R m = V::max(V::c(0), kLogSigmoid ? V::neg(x) : x);
      const R all = V::add(m, sum), of_sum = V::sub(all, m);
      rest = V::add(rest, V::add(V::sub(m, V::sub(all, of_sum)), V::sub(sum, of_sum)));
      rest = V::fma(s, q, rest);
      const R bound = V::fma(s, V::c(0x1.1p-22F), V::mul(all, V::c(k32 ? 0x1.ap-35F : 0x1.9p-32F)));
      const R above = V::add(all, V::add(rest, bound)), below = V::add(all, V::sub(rest, bound));
      return {kLogSigmoid ? V::neg(above) : above, V::differ(above, below) | far};
    }
  };

  static bool takes(LaneFunction f, const LaneParams& p) {
    switch (f) {
      case LaneFunction::tanh:
        return k32;
      case LaneFunction::exp:
      case LaneFunction::erf:
      case LaneFunction::sigmoid:
      case LaneFunction::silu:
      case LaneFunction::gelu:
      case LaneFunction::gelu_tanh:
      case LaneFunction::hard_swish:
      case LaneFunction::log_sigmoid:
      case LaneFunction::mish:
        return true;
      case LaneFunction::softplus:  // e^-20 takes nothing from 20
        return p.threshold >= 20;
      case LaneFunction::elu:
      case LaneFunction::celu:  // with alpha 1 it is the same function
        return p.alpha == 1;
      default:
        return false;
    }
  }
  // doubles(x, y, n): what is left open, by the doubles of lanes_inl.h.
  template <class Doubles>
  static std::int64_t run(LaneFunction f, const float* x, float* y, std::int64_t count,
                          const Doubles& doubles) {
    switch (f) {
      case LaneFunction::exp:
        return run_pairs<F, Exp>(x, y, count, doubles);
      case LaneFunction::erf:
        return run_two_steps<F, PairErf<F>>(x, y, count, doubles);
      case LaneFunction::sigmoid:
        return run_pairs<F, Sigmoid>(x, y, count, doubles);
      case LaneFunction::silu:
        return run_pairs<F, Silu>(x, y, count, doubles);
      case LaneFunction::tanh:
        if constexpr (k32) return run_pairs<F, Tanh>(x, y, count, doubles);
        return 0;
      case LaneFunction::gelu:
        return run_two_steps<F, PairGelu<F>>(x, y, count, doubles);
      case LaneFunction::gelu_tanh:
        return run_pairs<F, GeluTanh>(x, y, count, doubles);
      case LaneFunction::hard_swish:
        return PairHardSwish<F>::run(x, y, count, doubles);
      case LaneFunction::mish:
        return run_two_steps<F, Mish>(x, y, count, doubles);
      case LaneFunction::softplus:
        return run_pairs<F, Softplus<false>>(x, y, count, doubles);
      case LaneFunction::log_sigmoid:
        return run_pairs<F, Softplus<true>>(x, y, count, doubles);
      default:
        return run_pairs<F, Elu>(x, y, count, doubles);
    }
  }
};

}  // namespace etalon
