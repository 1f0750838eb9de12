// The rounding test (docs/exact.md) of one output.
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/numerics/fp.h"
#include "kernels/gemm/exact_lanes.h"

namespace etalon {

// Whether two numbers lie in one cell; NaN in none.
inline bool exact_in_one_cell(float a, float b, const ExactCells* cells) {
  const std::uint32_t x = bits_of(a), y = bits_of(b);
  if (a != a || b != b) return false;
  if (cells == nullptr || 2 * x < cells->least) return x == y;
  const auto side = [&](std::uint32_t half) { return ((x + half) ^ (y + half)) & cells->mask; };
  return (side(cells->half) | side(cells->half - 1)) == 0;
}

// Decides one output: t is the f64 value, e bounds its distance from the real one. A truth, where
// one is wanted, knows no cells.
inline bool exact_decide(double t, double e, float& y, double* truth,
                         const ExactCells* cells = nullptr) {
  e += std::abs(t) * 0x1p-51;  // the additions below, and that of a bias
  const auto low = static_cast<float>(t - e), high = static_cast<float>(t + e);
  if (!exact_in_one_cell(low, high, cells)) return false;
  if (truth != nullptr) {
    if (std::isinf(low) || e > ulp_of(static_cast<double>(low), DType::f32) * 0x1p-11) return false;
    *truth = t;
  }
  y = low;
  return true;
}

}  // namespace etalon
