// The roots of unity of a Fourier transform, correctly rounded.
#pragma once

#include <memory>
#include <vector>

#include "engine/core/dtype.h"

namespace etalon {

// cos and sin of 2 pi k / n for k = 0 .. n/2 - 1, n a power of two, each the real number rounded
// once (to nearest even) to the format. They are algebraic: cos(t/2) = sqrt((1 + cos t)/2) and the
// angle sum reach all of them from cos(pi) = -1, in exact arithmetic with a proven radius (real.h).
struct Twiddles {
  std::int64_t n = 1;
  std::vector<double> cosine, sine;
};
std::shared_ptr<const Twiddles> twiddles(std::int64_t n, DType format);

}  // namespace etalon
