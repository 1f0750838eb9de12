// The three matrices of Winograd's F(m, r), exact, from its interpolation points.
//
// m outputs y_i = sum over k of g_k d_(i+k) of a kernel of r from alpha = m + r - 1 inputs are
//   y = A^T ((G g) * (B^T d))         (* element by element)
// which is Toom-Cook's product of polynomials, transposed. Multiplying polynomials a (degree m - 1)
// and g (degree r - 1) means: evaluate both at alpha - 1 points p_j and at infinity (the leading
// coefficient), multiply the values, interpolate. Evaluation is a matrix of powers, V_m and V_r;
// interpolation through (p_j, s_j) and the leading coefficient s_inf is
//   s(x) = s_inf M(x) + sum_j s_j L_j(x),  M = prod (x - p_l),  L_j = prod_(l != j) (x - p_l) /
//   N_j, N_j = prod_(l != j) (p_j - p_l)
// so its matrix C has the coefficients of L_j and M as columns. The transpose of a -> C (V_r g *
// V_m a) is d -> V_m^T (V_r g * C^T d): a correlation. Hence
//   A^T row i: p_j^i, and 1 in the last row for infinity
//   G row j:   p_j^k / N_j, and the last unit vector for infinity
//   B^T row j: the coefficients of N_j L_j; of M for infinity
// where the divisor N_j was moved from B^T into G, which is transformed once. If N_0 < 0, row 0 of
// B^T and of G change sign, as usual in print. Source: Lavin, Gray (arXiv 1509.09308); Barabasz et
// al. (arXiv 1803.10986), section 3. tests/conv_algorithms_test.cpp checks y exactly, in fractions.
#pragma once

#include <vector>

#include "engine/numerics/algorithm.h"

namespace etalon {

struct FractionMatrix {
  std::int64_t rows = 0, cols = 0;
  std::vector<Fraction> at;  // row-major
  const Fraction& operator()(std::int64_t i, std::int64_t j) const {
    return at[static_cast<std::size_t>(i * cols + j)];
  }
  Fraction& operator()(std::int64_t i, std::int64_t j) {
    return at[static_cast<std::size_t>(i * cols + j)];
  }
};

struct WinogradMatrices {
  FractionMatrix a_t;  // [m, alpha]
  FractionMatrix g;    // [alpha, r]
  FractionMatrix b_t;  // [alpha, alpha]
};

// usage Error where the fractions leave 64 bits.
WinogradMatrices winograd_matrices(const Algorithm& algorithm);

}  // namespace etalon
