// Contract exact for gemm and conv on f32: a first pass in f64 whose error is bounded, a test
// whether both ends of the interval round to the same f32, and the definition for the rest.
//
// Products of two f32 are exact in f64, so a chain of K fused multiply-adds is off by at most
// K u / (1 - K u) * sum |a b| <= K u / (1 - K u) * |a| |b| (2-norms, Cauchy-Schwarz), u = 2^-53.
// Nothing under- or overflows: products are multiples of 2^-298 below 2^256. NaN and infinities
// fail the test, and so does an interval that holds zero but is not zero; they are left to the
// definition, whose result needs no order: it is the correctly rounded one.
#pragma once

#include <atomic>
#include <cmath>

#include "engine/backend/kernel.h"
#include "engine/numerics/fp.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

// How many outputs the first pass left undecided since the start; a test asks that it is not zero.
struct ExactCounts {
  std::atomic<std::int64_t> outputs{0}, undecided{0};
};
ExactCounts& exact_counts();

// K u / (1 - K u), with room for the rounding of the norms themselves.
inline double exact_factor(std::int64_t k) {
  return static_cast<double>(k) * 0x1p-53 * (1 + 0x1p-10);
}

// Decides one output: t is the f64 value, e bounds its distance from the real one.
inline bool exact_decide(double t, double e, float& y, double* truth) {
  e += std::abs(t) * 0x1p-51;  // the additions below, and that of a bias
  const auto low = static_cast<float>(t - e), high = static_cast<float>(t + e);
  if (!(low == high) || std::signbit(low) != std::signbit(high)) return false;
  if (truth != nullptr) {
    if (std::isinf(low) || e > ulp_of(static_cast<double>(low), DType::f32) * 0x1p-11) return false;
    *truth = t;
  }
  y = low;
  return true;
}

template <Isa isa>
KernelRow gemm_exact_row(std::string_view name);

}  // namespace etalon
