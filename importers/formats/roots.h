// Roots of unity, of which discrete Fourier transforms are made.
#pragma once

#include <cstdint>
#include <vector>

namespace etalon {

struct Root {
  double cosine, sine;
};

// cos and sin of 2 pi k/n for k from 0 to n - 1, correctly rounded to f64.
std::vector<Root> roots_of_unity(std::int64_t n);

}  // namespace etalon
