// What a convolution algorithm costs and how far its result may lie from the real one, from the
// geometry and the matrices alone, before anything is computed.
//
// Work is counted in scalar multiply-adds. Error bounds hold for round to nearest with unit
// roundoff u and no over- or underflow, |x| <= X and |w| <= W everywhere. With gamma(n) = n u / (1
// - n u) (Higham, Accuracy and Stability of Numerical Algorithms, 2002, lemma 3.1):
//
//   direct, im2col   |y - real| <= gamma(K + 1) K X W:
//     a term meets at most K roundings of its chain, and the bias one.
//   winograd         |y - real| <= gamma(n) C kappa X W:
//     each of the terms of Y = A^T [sum_c (G g G^T) * (B^T d B)] A meets at most n roundings, so
//     the error is at most gamma(n) |A^T| [sum_c (|G| |g| |G^T|) * (|B^T| |d| |B|)] |A|. A chain of
//     z coefficients that are not zero rounds z times, and a coefficient that is no number of the
//     format once more. kappa is the largest element of |A^T| [(|G| 1 1^T |G^T|) * (|B^T| 1 1^T
//     |B|)] |A|. This is theorem 2 of Barabasz et al. (arXiv 1803.10986) with u^2 terms kept
//     instead of dropped, element by element instead of in norms. transform=f64 leaves of n the sum
//     over channels and three roundings.
//   fft              |y - real| <= ((1 + e)^3 (1 + gamma(2C + 2)) - 1 + u) C (N X) (R R W):
//     a transform of L = 2 log2 N levels has ||error|| <= e ||result||, e = L h / (1 - L h), h = u
//     + gamma(4) (sqrt 2 + u) (Higham, theorem 24.2, for twiddles rounded correctly); a spectrum's
//     elements are at most ||g||_1 <= R R W, ||F d|| = N ||d|| <= N (N X), and F^-1 has norm 1/N.
//     The bound is the same for each output of a tile, however small that output is.
#pragma once

#include "kernels/conv/tiles.h"

namespace etalon {

struct AlgorithmCost {
  // Multiply-adds of the sum over channels; operations (a multiply-add is one) of the transforms of
  // x and y, and of w (done once where w is constant), counted over the definition's own text.
  double products = 0, transforms = 0, weights = 0;
  // One run with w transformed before it, counted as one would by hand: a factor of 1 or -1 is no
  // multiplication, and what is added to nothing is no addition.
  double multiplications = 0, additions = 0;
  double spectrum_bytes = 0;  // transformed x and y of all tiles in f32
  double weight_bytes = 0;    // transformed w
  double roundings = 0;       // that a term meets at most
  double amplification = 1;   // sum of sizes of terms over direct's, kappa / R^2
  double bound = 0;           // of the error for X = W = 1
};

// usage Error with the refusal where the algorithm does not apply.
AlgorithmCost algorithm_cost(const Problem& problem);

}  // namespace etalon
