// The f64 first pass of the exact normalisations, by vectors: values, the bound of their error, and
// the test whether both ends of the interval round to the same f32.
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

// y[i] = round((x[i] - mean) * (outer * factor) + bias), an f64 error of `relative` of the product
// and of spread * |outer * factor| (the mean's own error). Arrays where `varies` says so.
struct ExactAffine {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t n = 0;
  const double *mean = nullptr, *factor = nullptr, *bias = nullptr;
  bool mean_varies = false, affine_varies = false;
  double outer = 1, relative = 0, spread = 0;
};

// lrn: n neighbouring elements of one channel, those of the channel at distance d at x + d * step;
// y = x / (bias + factor * s)^(3/4), or ^(1/2), or ^1.
enum class LrnPower { one, half, three_quarters };
struct ExactLrn {
  const float* x = nullptr;
  float* y = nullptr;
  std::int64_t n = 0;
  std::int64_t first = 0, last = 0, step = 0;
  double factor = 0, bias = 0, relative = 0;
  LrnPower power = LrnPower::one;
};

// Each sets a bit in `undecided` (n rounded up to whole words of 64) for every element whose
// rounding the interval does not decide; those are left to the definition.
struct ExactNormLanes {
  void (*affine)(const ExactAffine& call, std::uint64_t* undecided) = nullptr;
  void (*lrn)(const ExactLrn& call, std::uint64_t* undecided) = nullptr;
};

const ExactNormLanes* exact_norm_lanes(Isa isa);  // nullptr where the set is not compiled in

}  // namespace etalon
namespace etalon::avx512 {
const etalon::ExactNormLanes& exact_norm_lanes();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const etalon::ExactNormLanes& exact_norm_lanes();
}  // namespace etalon::avx2
