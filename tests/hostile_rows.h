// Rows made to hurt a sum: exact ties and numbers next to ties, total cancellation, magnitudes
// 2^+-126 mixed, equal elements, one-hot, small integers, what a ReLU leaves, subnormals, the
// largest numbers.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/core/philox.h"

namespace etalon {

enum class Hostile {
  noise,
  cancelling,
  extremes,
  equal,
  one_hot,
  integers,
  relu,
  powers,
  midpoints,
  tiny,
  large
};
inline constexpr Hostile kHostile[] = {Hostile::noise, Hostile::cancelling, Hostile::extremes,
                                       Hostile::equal, Hostile::one_hot,    Hostile::integers,
                                       Hostile::relu,  Hostile::powers,     Hostile::midpoints,
                                       Hostile::tiny,  Hostile::large};

// Row `row` of n elements.
inline std::vector<float> hostile_row(Hostile kind, std::int64_t n, std::uint64_t row) {
  const Philox random{static_cast<std::uint64_t>(kind) * 1000 + row, 77};
  std::vector<float> x(static_cast<std::size_t>(n));
  for (std::size_t k = 0; k < x.size(); ++k) {
    const float u = random.uniform(3 * k), v = random.uniform(3 * k + 1),
                w = random.uniform(3 * k + 2);
    const float sign = w < 0.5F ? -1.0F : 1.0F;
    switch (kind) {
      case Hostile::noise:
        x[k] = u - 0.5F;
        break;
      case Hostile::cancelling:  // pairs x, -x, and a little that stays
        x[k] = k % 2 == 1 ? -x[k - 1] : std::ldexp(u + 0.5F, static_cast<int>(v * 40));
        if (k + 1 == x.size()) x[k] = 0x1p-100F;
        break;
      case Hostile::extremes:
        x[k] = sign * std::ldexp(1 + u, v < 0.3F ? 126 : v < 0.6F ? -126 : 0);
        break;
      case Hostile::equal:
        x[k] = 1 + std::round(random.uniform(900000) * 1e6F) * 0x1p-20F;
        break;
      case Hostile::one_hot:
        x[k] = k == row % x.size() ? 3.0F : 0.0F;
        break;
      case Hostile::integers:
        x[k] = std::round(u * 16 - 8);
        break;
      case Hostile::relu:
        x[k] = u < 0.5F ? 0.0F : std::round(u * 64) / 16;
        break;
      case Hostile::powers:
        x[k] = sign * std::ldexp(1.0F, static_cast<int>(v * 3) * 12 - 12);
        break;
      case Hostile::midpoints:  // 2^24, ones and halves: sums on midpoints and beside them
        x[k] = k == 0 ? 0x1p24F : v < 0.8F ? std::round(u * 4) : v < 0.9F ? 0x1p-20F : -0x1p-60F;
        break;
      case Hostile::tiny:
        x[k] = sign * std::ldexp(std::round(u * 8), -149);
        break;
      case Hostile::large:
        x[k] = sign * std::ldexp(1 + u, 127);
        break;
    }
  }
  return x;
}

}  // namespace etalon
