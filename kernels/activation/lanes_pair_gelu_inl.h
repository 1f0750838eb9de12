// gelu of the normal distribution in pairs of floats (lanes_pair_base_inl.h).
#pragma once

#include "kernels/activation/gelu_rows.h"
#include "kernels/activation/lanes_pair_rows_inl.h"

namespace etalon {

// B - a Phi(-a), B = max(x, 0), a = |x|, Phi the normal distribution: one formula for both signs.
//
// **Phi(-a)** by rows (lanes_pair_rows_inl.h): g - h d (1 + y), g = Phi(-c), h the density there,
// 1 + y the mean with k = 1. h d < 2^-4.9 g and v < 2^-4.9, so that z = h d y/Phi(-a) is below
// 2^-10.9.
//   p = g - h d rounded, e what it lacks: the difference is exact (Sterbenz), the last fma but for
//   2^-48.
//   rest = e + (what g lacks) - d (h y + what h lacks): Phi(-a) = p + rest.
// high = B - a p rounded; B - high is exact (Sterbenz: a p <= B/2, or B = 0), low = what high
// lacks, and - a rest.
//
// Errors, relative to Phi(-a), in units of 2^-24: of v 2 (its sum, its product), which count for
// y as much, of P 1, y 1, h y 1, rest 1, all of z, and 2^-23 for e, its sum and what is lacking:
// 6.3 z + 4 * 2^-24; low, z + 3 * 2^-24 of a Phi(-a) = B - high, errs by one of it, low with the
// bound by another: 8.3 z + 10 * 2^-24. With the row's approximation, summed for each row by
// generate_polynomials.py: 2e-11 to 4.3e-10, tested with four thirds. Those of low's part below
// 2^-24 high count twice 2^-48 of the result too: B 2^-46.
//
// From kGeluEnd on the row's bound is infinite, and no result below 2^-101 survives 2^-126, so
// that no part of one that does is subnormal: the result is x from kGeluEnd on and for zeros;
// the others and NaN are left open.
template <class F>
struct PairGelu {
  static constexpr int kVectors = F::kGeluVectors;
  static constexpr int kNotes = 1;
  template <int K>
  ETALON_INLINE static void first(const typename Several<F, K>::Reg& x, std::uint32_t* places) {
    note_rows<Several<F, K>>(x, polynomials::kGeluEnd, places);
  }
  template <int K>
  ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x,
                                              const std::uint32_t* places) {
    using V = Several<F, K>;
    using R = typename V::Reg;
    R row[4];
    V::rows(polynomials::kGeluRows[0], places, row);
    const R &g = row[0], &h = row[1], &lacks = row[2], &error = row[3];
    const R a = V::abs(x);
    const auto [d, y] = from_row<1, V>(a);
    const R p = V::fnma(h, d, g), e = V::fnma(h, d, V::sub(g, p));
    const R slope = V::fma(h, y, V::template without_first<polynomials::kGeluShift>(lacks));
    const R rest = V::fnma(d, slope, V::add(e, lacks));
    const R b = V::max(V::c(0), x);
    const R high = V::fnma(a, p, b), taken = V::sub(b, high);
    const R low = V::fnms(a, rest, V::fms(a, p, taken));
    const R bound = V::fma(taken, error, V::fma(b, V::c(0x1p-46F), V::c(0x1p-126F)));
    const R above = V::add(high, V::add(low, bound));
    const R below = V::add(high, V::sub(low, bound));
    const std::uint64_t open = V::differ(above, below);
    if (open == 0) [[likely]]
      return {above, 0};
    const auto inside = V::not_less(V::c(polynomials::kGeluEnd), x);  // NaN too
    const std::uint64_t left = V::differ(x, V::c(0)) & V::to_bits(inside);
    return {V::select_bits(left, above, x), open & left};
  }
};

}  // namespace etalon
