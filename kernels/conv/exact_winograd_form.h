// The one-dimensional forms F(m, r) of kernels/conv/exact_winograd.h: m outputs of r taps from
// P = m + r - 1 inputs by P products (Toom, Cook; Winograd 1980; Blahut, Fast Algorithms for Signal
// Processing, section 5.2), over the points 0, +-1, infinity (P = 4) or 0, +-1, +-1/2, infinity
// (P = 6):
//
//     y = A^T [ (G g) * (B^T d) ],    row p of G: n(p) (1, p, p^2, ..),
//                                     row p of B^T: the coefficients of the product of x - q,
//                                     column p of A^T: (1, p, p^2, ..) / (n(p) product of p - q),
//
// q running over the other finite points; infinity has (0 .. 0, 1) in G and A^T and the product of
// all x - q in B^T. n(p) is the power of two times one or three that leaves A^T (1, p, p^2, ..) or
// a third of that: so all of G and B^T is exact in f64, and a third is met once, with the sums.
//
// Half-points rather than +-2: the largest products of entries of |A^T|, |G| and |B^T|, which the
// bound is made of, are smaller for most outputs and need no scaling.
#pragma once

namespace etalon {

inline constexpr int kMostPatch = 6, kMostWinogradTaps = 5, kMostWinogradOutputs = 4;

struct WinogradForm {
  int outputs = 0, taps = 0, patch = 0;  // m, r, P
  double bt[kMostPatch][kMostPatch] = {}, g[kMostPatch][kMostWinogradTaps] = {},
         at[kMostWinogradOutputs][kMostPatch] = {};
  // |V'|^2 <= sum over i, j of squares[i] squares[j] d(i, j)^2, as Cauchy and Schwarz have it:
  // (sum of |b_i d_i|)^2 <= (sum of |b_i|) (sum of |b_i| d_i^2) for each row b of B^T.
  double squares[kMostPatch] = {};
  // What both passes of the transforms of inputs and weights add, and those of the outputs, in u.
  int roundings = 0, end_roundings = 0;

  constexpr int positions() const { return patch * patch; }
};

inline constexpr double kWinogradPoints[kMostPatch - 1] = {0, 1, -1, 0.5, -0.5};
constexpr double point_power(int point, int power) {
  double x = 1;
  for (int i = 0; i < power; ++i) x *= kWinogradPoints[point];
  return x;
}

// What paired points have in A^T.
constexpr double winograd_end(int patch) { return patch == 4 ? 1 : 1.0 / 3; }

constexpr WinogradForm make_winograd_form(int outputs, int taps) {
  WinogradForm f;
  f.outputs = outputs;
  f.taps = taps;
  f.patch = outputs + taps - 1;
  const int finite = f.patch - 1, pairs = (f.patch - 2) / 2;
  for (int p = 0; p < f.patch; ++p) {
    double* c = f.bt[p];  // of the product of x - q so far
    c[0] = 1;
    double product = 1;
    for (int q = 0; q < finite; ++q) {
      if (q == p) continue;
      for (int i = f.patch - 1; i > 0; --i) c[i] = c[i - 1] - kWinogradPoints[q] * c[i];
      c[0] *= -kWinogradPoints[q];
      if (p < finite) product *= kWinogradPoints[p] - kWinogradPoints[q];
    }
    const bool pair = p > 0 && p < finite;
    const double end = pair ? winograd_end(f.patch) : 1;
    // 1 / (product end) is exact: products are -1; 1/4; 2; 3/2 and -3/8.
    const double n = pair && f.patch == 6 ? 3 / product : 1 / product;
    for (int j = 0; j < taps; ++j)
      f.g[p][j] = p < finite ? point_power(p, j) * n : j == taps - 1 ? 1 : 0;
    for (int i = 0; i < outputs; ++i)
      f.at[i][p] = p < finite ? point_power(p, i) * end : i == outputs - 1 ? 1 : 0;
  }
  for (const auto& row : f.bt) {
    double sum = 0;
    for (const double b : row) sum += b < 0 ? -b : b;
    for (int i = 0; i < f.patch; ++i) f.squares[i] += sum * (row[i] < 0 ? -row[i] : row[i]);
  }
  // A pass of B^T: `pairs` fused operations; of G: even and odd powers, joined.
  f.roundings = 2 * (pairs + (taps - 1) / 2 + 1);
  // A pass of A^T: a pair's sum, further pairs by fused operations, and the end; or a third of
  // that, itself rounded, to which the end is added by one fused operation.
  f.end_roundings = 2 * (pairs + (f.patch == 4 ? 1 : 2));
  return f;
}

inline constexpr int kWinogradFormCount = 4;
inline constexpr WinogradForm kWinogradForms[kWinogradFormCount] = {
    make_winograd_form(2, 3), make_winograd_form(4, 3), make_winograd_form(3, 4),
    make_winograd_form(2, 5)};

}  // namespace etalon
