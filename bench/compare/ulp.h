// Errors of a tensor in units in the last place, counted from the exact values.
//
// The truth of an element is a pair: the correctly rounded value of its format, and the exact value
// as a double with an error of at most 2^-10 ULP. An error is |computed - exact| / ulp(exact), so a
// correctly rounded element has an error of at most 0.5, and 0 only where the exact value is a
// number of the format. Infinities and NaN that do not match are counted apart and enter no mean;
// integer outputs have counts, never ULP.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/tensor.h"

namespace etalon {

struct ErrorStats {
  static constexpr int kBuckets = 26;
  // Upper ends of the histogram's buckets: 0.5, 1, 2, 4, ... 2^23; the last bucket is open.
  static double edge(int bucket);

  std::int64_t elements = 0;
  double max_ulp = 0, mean_ulp = 0, p999_ulp = 0;
  std::int64_t correctly_rounded = 0;
  std::int64_t different = 0;     // integer outputs: elements that are not equal
  std::int64_t inf_mismatch = 0;  // one is infinite (or of the other sign), no NaN involved
  std::int64_t nan_mismatch = 0;  // one is NaN
  std::array<std::int64_t, kBuckets> histogram{};
  std::int64_t worst = -1;  // index of the largest error, of a mismatch first
  double worst_exact = 0;   // its exact value

  std::int64_t non_finite() const { return inf_mismatch + nan_mismatch; }
};

// One element: what was computed, what is exact.
struct TruthPair {
  std::int64_t index = 0;
  double rounded = 0, exact = 0;
};

// The listed elements of `got`.
ErrorStats error_stats(const Tensor& got, std::span<const TruthPair> truth);
// Every element; `rounded` has the type of `got`, `exact` is f64 of the same shape, or absent for
// types that are not floating.
ErrorStats error_stats(const Tensor& got, const Tensor& rounded, const Tensor& exact);

// |got - exact| in ULP of the format; infinite where one is not finite and they differ, NaN never.
double error_in_ulp(double got, double exact, DType dtype);

std::int64_t bits_equal(const Tensor& a, const Tensor& b);  // elements with equal bits

}  // namespace etalon
