// Noise, on which the order of a sum shows, with special values strewn in.
#pragma once

#include "tests/noise.h"
#include "tests/special_data.h"

namespace etalon::test {

// `part` of the elements are candidates for special values.
inline Tensor special_noise(const Shape& shape, std::uint64_t seed, float part) {
  Tensor t = noise(shape, seed);
  const Philox random{seed, 0};
  std::uint64_t i = 0;
  for (float& x : t.mutable_data<float>()) {
    if (share(random, i + (1U << 30)) < part) x = special(x, share(random, i + (1U << 29)));
    ++i;
  }
  return t;
}

}  // namespace etalon::test
