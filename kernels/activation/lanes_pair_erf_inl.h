// erf in pairs of floats (lanes_pair_base_inl.h).
#pragma once

#include "kernels/activation/erf_rows.h"
#include "kernels/activation/gelu_rows.h"
#include "kernels/activation/lanes_pair_base_inl.h"

namespace etalon {

// erf(a), a = |x|, by a row of a table in memory for c = a rounded to 128ths; d = a - c exactly,
// |d| <= 2^-8. erf(c + d) = g + h d (1 + y), g = erf(c), h the slope there; 1 + y is the mean of
// e^(-2 c s - s^2), s from 0 to d: with v = 2 d (c + d/3), but for c d^3/18, (1 - e^-v)/v, and y =
// v P(v), P as for PairGelu; v is below 0.031, h d y below 2^-16 of the result.
//   p = g + h d rounded, e what it lacks: h d is at most g/2 but in the first row, where g is 0, so
//   that g - p is exact (Sterbenz).
//   rest = e + (what g lacks) + d (h y + what h lacks): erf(a) = p + rest.
// Errors are those of a Phi(-a) without its product by a, summed for each row by
// generate_polynomials.py: below 2.2e-11, tested with four thirds. From kErfEnd on the last row
// stands, which is 1: erf is within 2^-25 of it. Zeros keep their sign; what is below 2^-100 has
// subnormal parts and is left open.
template <class F>
struct PairErf {
  static constexpr int kVectors = F::kGeluVectors;
  static constexpr int kNotes = 1;
  // c + 2^16: the table's row in its last 16 bits. NaN has the last row.
  template <int K>
  ETALON_INLINE static void first(const typename Several<F, K>::Reg& x, std::uint32_t* places) {
    using V = Several<F, K>;
    V::store_places(places, V::add(V::min(V::abs(x), V::c(polynomials::kErfEnd)), V::c(0x1p16F)));
  }
  template <int K>
  ETALON_INLINE static PairResult<F, K> apply(const typename Several<F, K>::Reg& x,
                                              const std::uint32_t* places) {
    using V = Several<F, K>;
    using R = typename V::Reg;
    constexpr auto& m = polynomials::kGeluMean;
    R row[4];
    V::rows(polynomials::kErfRows[0], places, row);
    const R &g = row[0], &h = row[1], &g_rest = row[2], &h_rest = row[3];
    const R a = V::min(V::c(polynomials::kErfEnd), V::abs(x));  // NaN is NaN
    const R shift = V::c(0x1p16F), c = V::sub(V::add(a, shift), shift), d = V::sub(a, c);
    const R v = V::mul(d, V::fma(d, V::c(1.0F / 3), c));  // half of it
    const R y = V::mul(V::fma(V::fma(V::c(8 * m[2]), v, V::c(4 * m[1])), v, V::c(2 * m[0])), v);
    const R p = V::fma(h, d, g), e = V::fma(h, d, V::sub(g, p));
    const R rest = V::fma(d, V::fma(h, y, h_rest), V::add(e, g_rest));
    const R bound = V::mul(p, V::c(polynomials::kErfError));
    const R above = V::add(p, V::add(rest, bound)), below = V::add(p, V::sub(rest, bound));
    return {V::with_sign(above, x), V::differ(above, below) | V::tiny(x, 0x1p-100F)};
  }
};

}  // namespace etalon
