// Pairs of floats (lanes_pair_base_inl.h) by rows of a table in memory, one for each c, which is a
// >= 0 rounded to 128ths: what gelu and erf share.
//
// d = a - c exactly, |d| <= 2^-8. Both need the mean of e^(-k (c s + s^2/2)), s from 0 to d, k = 1
// or 2: with v = k d (c + d/3) it is, but for k^2 c d^3/72, (1 - e^-v)/v = 1 + v P(v), one
// polynomial P for all rows.
#pragma once

#include "kernels/activation/lanes_pair_base_inl.h"
#include "kernels/activation/polynomials.h"

namespace etalon {

// The places of the rows of |x|, of a table that ends with `end`'s: c + 2^16 has the row in its
// last 16 bits. NaN has the last row.
template <class V>
ETALON_INLINE void note_rows(const typename V::Reg& x, float end, std::uint32_t* places) {
  V::store_places(places, V::add(V::min(V::abs(x), V::c(end)), V::c(0x1p16F)));
}

template <class V>
struct FromRow {
  typename V::Reg d, mean;  // v P(v)
};
template <int k, class V>
ETALON_INLINE FromRow<V> from_row(const typename V::Reg& a) {
  using R = typename V::Reg;
  constexpr auto& m = polynomials::kPairMean;
  const R shift = V::c(0x1p16F), c = V::sub(V::add(a, shift), shift), d = V::sub(a, c);
  const R v = V::mul(d, V::fma(d, V::c(1.0F / 3), c));  // a kth of it
  const R p = V::fma(V::fma(V::c(k * k * k * m[2]), v, V::c(k * k * m[1])), v, V::c(k * m[0]));
  return {d, V::mul(p, v)};
}

}  // namespace etalon
