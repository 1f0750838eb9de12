// Pairs of floats (lanes_pair_base_inl.h) by rows of a table in memory, one for each c, which is x
// rounded to 128ths: what gelu and erf share.
//
// d = x - c exactly, |d| <= 2^-8. Both need the mean of e^(-k (c s + s^2/2)), s from 0 to d, k = 1
// or 2: with v = k d (c + d/3) it is, but for k^2 c d^3/72, (1 - e^-v)/v = 1 + v P(v), one
// polynomial P for all rows.
#pragma once

#include "kernels/activation/lanes_pair_base_inl.h"
#include "kernels/activation/polynomials.h"

namespace etalon {

// The places of the rows of x in a table that starts with c = `start`: 2^14 + c - start has four
// times the row's number in its last 16 bits.
template <class V, int kNotes>
ETALON_INLINE void note_rows(const typename V::Reg& x, float start, std::uint32_t* places) {
  V::template note<kNotes>(places, 0, V::add(V::nearest_128th(x), V::c(0x1p14F - start)));
}

template <class V>
struct FromRow {
  typename V::Reg d, mean;  // v P(v)
};
template <int k, class V>
ETALON_INLINE FromRow<V> from_row(const typename V::Reg& x) {
  using R = typename V::Reg;
  constexpr auto& m = polynomials::kPairMean;
  const R c = V::nearest_128th(x), d = V::sub(x, c);
  const R v = V::mul(d, V::fma(d, V::c(1.0F / 3), c));  // a kth of it
  const R p = V::fma(V::fma(V::c(k * k * k * m[2]), v, V::c(k * k * m[1])), v, V::c(k * m[0]));
  return {d, V::mul(p, v)};
}

}  // namespace etalon
