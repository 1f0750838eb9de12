// gelu of the normal distribution in pairs of floats (lanes_pair_base_inl.h).
#pragma once

#include "kernels/activation/gelu_rows.h"
#include "kernels/activation/lanes_pair_rows_inl.h"

namespace etalon {

// x Phi(x), Phi the normal distribution: one formula for both signs.
//
// **Phi(x)** by rows (lanes_pair_rows_inl.h): g + h d (1 + y), g = Phi(c), h the density there,
// 1 + y the mean with k = 1. h d < 2^-4.9 g and |v| < 2^-4.9, so that z = h d |y|/Phi(x) is below
// 2^-10.9.
//   p = g + h d rounded, e what it lacks: the difference is exact (Sterbenz), the last fma but for
//   2^-48.
//   rest = e + (what g lacks) + d (h y + what h lacks): Phi(x) = p + rest.
// high = x p rounded, low = what it lacks, exactly, and x rest.
//
// Errors, relative to Phi(x), in units of 2^-24: of v 2 (its sum, its product), which count for
// y as much, of P 1, y 1, h y 1, rest 1, all of z, and 2^-23 for e, its sum and what is lacking:
// 6.3 z + 4 * 2^-24; low, z + 3 * 2^-24 of the result, errs by one of it, low with the
// bound by another: 8.3 z + 10 * 2^-24. With the row's approximation, summed for each row by
// generate_polynomials.py: 6e-13 to 4.3e-10, tested with four thirds.
//
// **Small results.** The bound has 2^-126 more, for parts that are subnormal: results below 2^-101
// are left open. Below zero it is 2^-126 less the row's part, 2^-36.6 of the result, and nothing
// where these are equal: there |x| is some 2^-89, high is x/2, exactly, and the result.
//
// Below kGeluStart the row's bound is infinite. From kGeluEnd on Phi is within 2^-26 of 1 and the
// last row 1, so that the result is x, which half a unit in its last place, 2^-25 of it at least,
// keeps apart from what its bound of 2^-26 reaches. Zeros and infinity are left open, and are their
// own results.
template <class F>
struct PairGelu {
  static constexpr int kVectors = F::kGeluVectors;
  static constexpr int kNotes = 1;
  template <int K>
  ETALON_INLINE static void first(const typename Several<F, K>::Reg& x, std::uint32_t* places) {
    using V = Several<F, K>;
    const auto low = V::c(polynomials::kGeluStart), high = V::c(polynomials::kGeluEnd);
    note_rows<V, kNotes>(V::max(low, V::min(x, high)), polynomials::kGeluStart, places);
  }
  template <int K>
  ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x,
                                              const std::uint32_t* places) {
    using V = Several<F, K>;
    using R = typename V::Reg;
    R row[4];
    V::rows(polynomials::kGeluRows[0], places, row);
    const R &g = row[0], &h = row[1], &lacks = row[2], &error = row[3];
    const auto [d, y] = from_row<1, V>(x);
    const R p = V::fma(h, d, g), e = V::fma(h, d, V::sub(g, p));
    const R slope = V::fma(h, y, V::template without_first<polynomials::kGeluShift>(lacks));
    const R rest = V::fma(d, slope, V::add(e, lacks));
    const R high = V::mul(x, p), low = V::fma(x, rest, V::fms(x, p, high));
    const R bound = V::fma(high, error, V::c(0x1p-126F));
    const R above = V::add(high, V::add(low, bound));
    const R below = V::add(high, V::sub(low, bound));
    return {above, V::differ(above, below)};
  }
  static bool itself(float x) { return x == 0 || x == __builtin_inff(); }
};

}  // namespace etalon
