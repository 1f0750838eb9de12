// The values on which kernels that should agree differ: infinities and NaN, rare enough that most
// sums of some ten terms stay finite, zeros of both signs, subnormal numbers.
#pragma once

#include <limits>

#include "engine/core/philox.h"

namespace etalon::test {

// Evenly from [0, 1).
inline float share(const Philox& random, std::uint64_t i) {
  return random.uniform(i) * 0.5F + 0.5F;
}

// `pick`, drawn from [0, 1), says which special value stands in for `noise`, or that none does.
inline float special(float noise, float pick) {
  constexpr float kInf = std::numeric_limits<float>::infinity();
  if (pick < 0.004F) return kInf;
  if (pick < 0.008F) return -kInf;
  if (pick < 0.012F) return -std::numeric_limits<float>::quiet_NaN();
  if (pick < 0.1F) return -0.0F;
  if (pick < 0.2F) return 0.0F;
  if (pick < 0.3F) return noise * 0x1p-140F;
  return noise;
}

}  // namespace etalon::test
