// Functions of lanes.h that f32 arithmetic decides, twice as many lanes as doubles have. hard_swish
// is for machines without pairs of floats (lanes_pair_inl.h).
#pragma once

#include "kernels/activation/lanes_base_inl.h"

namespace etalon {

template <class D>
struct LaneFloat {
  using F = typename D::Floats;
  using R = typename F::Reg;

  // f(vector of floats) over an array, for what one operation decides.
  template <class Op>
  ETALON_INLINE static void each(const float* x, float* y, std::int64_t count, Op f) {
    std::int64_t i = 0;
    for (; i + F::lanes <= count; i += F::lanes) F::store(y + i, f(F::load(x + i)));
    if (i < count) {
      const auto m = F::first(static_cast<int>(count - i));
      F::store(y + i, f(F::load(x + i, m)), m);
    }
  }

  // x (x + 3)/6 of |x| < 3 as a sum of two floats, high + low:
  //   m + rest/6 = x/6      m = RN(x/6), rest = x - 6 m exactly: 6 m has 26 bits, near x
  //   s + t = x + 3         exact (Dekker's fast two-sum, 3 being the larger)
  //   high = RN(m s), e = m s - high exactly, low = e + (rest/6) s + m t.
  // |rest| <= 2^-23 |x|, since m and 1/6 are rounded, and |t| <= 2^-24 s. What is left out,
  // (rest/6) t, is 2^-47 |m s|; the roundings of rest/6, of the two sums and of the test's third
  // count 2^-46, 1.5 * 2^-47, 2^-46 and 2^-46: below 2^-43.7 |high|, tested with 2^-42. Where |x| <
  // 2^-100 the errors might underflow: left to doubles.
  struct Pair {
    R high, low;
  };
  ETALON_INLINE static Pair hard_swish_inside(R x) {
    const R sixth = F::set1(0x1.555556p-3F), three = F::set1(3);
    const R s = F::add(x, three), t = F::sub(x, F::sub(s, three));
    const R m = F::mul(x, sixth), rest = F::mul(F::fma(F::set1(-6), m, x), sixth);
    const R high = F::mul(m, s), e = F::fma(m, s, D::neg(high));
    return {high, F::fma(m, t, F::fma(rest, s, e))};
  }
  // -0 or x outside. `open` counts what is not decided here; beyond 3 the pair means nothing, but
  // is no number for infinities and NaN, which are open so.
  struct Rounded {
    R value;
    std::uint32_t open;  // lanes
  };
  ETALON_INLINE static Rounded hard_swish(R x) {
    const R size = D::abs(x);
    const Pair p = hard_swish_inside(x);
    const R error = F::set1(0x1p-42F);
    const R above = F::add(p.high, F::fma(p.high, error, p.low));
    const R below = F::add(p.high, D::fnma(p.high, error, p.low));
    const R value = F::select(D::less(size, F::set1(3)), above, D::max(F::set1(-0.0F), x));
    return {value, D::differ(above, below) | F::to_bits(D::less(size, F::set1(0x1p-100F)))};
  }
  // again(i, n): computes n elements from i on by doubles and returns how many went to the scalar.
  template <class Again>
  static std::int64_t hard_swish(const float* x, float* y, std::int64_t count, const Again& again) {
    std::int64_t refused = 0;
    std::int64_t i = 0;
    for (; i + F::lanes <= count; i += F::lanes) {
      const Rounded r = hard_swish(F::load(x + i));
      if (r.open == 0) [[likely]]
        F::store(y + i, r.value);
      else
        refused += again(i, F::lanes);
    }
    return i < count ? refused + again(i, static_cast<int>(count - i)) : refused;
  }
};

}  // namespace etalon
