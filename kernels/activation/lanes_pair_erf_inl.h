// erf in pairs of floats (lanes_pair_base_inl.h).
#pragma once

#include "kernels/activation/erf_rows.h"
#include "kernels/activation/lanes_pair_rows_inl.h"

namespace etalon {

// erf(a), a = |x|, by rows (lanes_pair_rows_inl.h): erf(c + d) = g + h d (1 + y), g = erf(c), h the
// slope there, 1 + y the mean with k = 2; v is below 0.031, h d y below 2^-16 of the result.
//   p = g + h d rounded, e what it lacks: h d is at most g/2 but in the first row, where g is 0, so
//   that g - p is exact (Sterbenz).
//   rest = e + (what g lacks) + d (h y + what h lacks): erf(a) = p + rest.
// Errors are those of a Phi(-a) without its product by a, summed for each row by
// generate_polynomials.py: below 2.2e-11, tested with four thirds. The last row, from 2^-8 below
// kErfEnd on, is 1: erf is within 2^-25 of it. Zeros keep their sign; what is below 2^-100 has
// subnormal parts and is left open.
template <class F>
struct PairErf {
  static constexpr int kVectors = F::kGeluVectors;
  static constexpr int kNotes = 1;
  template <int K>
  ETALON_INLINE static void first(const typename Several<F, K>::Reg& x, std::uint32_t* places) {
    using V = Several<F, K>;
    note_rows<V, kNotes>(V::min(V::abs(x), V::c(polynomials::kErfEnd)), 0, places);
  }
  template <int K>
  ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x,
                                              const std::uint32_t* places) {
    using V = Several<F, K>;
    using R = typename V::Reg;
    R row[4];
    V::rows(polynomials::kErfRows[0], places, row);
    const R &g = row[0], &h = row[1], &g_rest = row[2], &h_rest = row[3];
    const R a = V::min(V::c(polynomials::kErfEnd), V::abs(x));  // NaN is NaN
    const auto [d, y] = from_row<2, V>(a);
    const R p = V::fma(h, d, g), e = V::fma(h, d, V::sub(g, p));
    const R rest = V::fma(d, V::fma(h, y, h_rest), V::add(e, g_rest));
    const R bound = V::mul(p, V::c(polynomials::kErfError));
    const R above = V::add(p, V::add(rest, bound)), below = V::add(p, V::sub(rest, bound));
    return {V::with_sign(above, x), V::differ(above, below) | V::tiny(x, 0x1p-100F)};
  }
};

}  // namespace etalon
