// The rounding tests of proof.h on runs of inputs, where the proof spends its time: true where
// every one of them holds. check_avx512.cpp holds the same text for the machines that have it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace etalon {

struct ChunkChecks {
  // |lanes[i] - p(x[i])| <= lane_error |p| + error, and all of p(x[i]) -+ error rounds to y[i],
  // which is finite and not inside.
  bool (*taylor)(const double* polynomial, double error, double lane_error, const float* x,
                 const float* y, const double* lanes, std::size_t count);
  // The interval from g to g times `end`, wider by slack |g|, where g = constant + slope x, rounds
  // to y[i], which is not strictly inside unless it may be.
  bool (*lemma)(double constant, double slope, double end, double slack, bool inside,
                const float* x, const float* y, std::size_t count);
  // y[i] is other[i] with the bits of `flip` changed, or both are the canonical NaN.
  bool (*mirrored)(const float* y, const float* other, std::uint32_t flip, std::size_t count);
  // y[i] = factor other[i], normal.
  bool (*scaled)(const float* y, const float* other, double factor, std::size_t count);
};
// For a centre and four coefficients: Taylor in that order.

namespace scalar {
extern const ChunkChecks checks;
}
namespace avx512 {
extern const ChunkChecks checks;
}

}  // namespace etalon
