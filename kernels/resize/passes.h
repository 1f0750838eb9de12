// resize one axis at a time: the definition nests its sums, the last axis innermost, and an inner
// sum hangs on no outer place; so each is made once, for all who ask for it, last axis first. Under
// seq with the definition's operations in f32 (fast.h), under exact as a first pass in f64
// (exact.h).
#pragma once

#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

// The taps of one axis, by tap and output, at [tap * out + output]: an output is the chain
// fma(weight, element, s) from +0 over its taps in order, or, where it copies, the element at tap
// 0.
template <class W>
struct ResizeTaps {
  std::int64_t out = 0;
  int most = 0;                         // taps of any output
  const std::int32_t* index = nullptr;  // -1: no such tap
  const W* weight = nullptr;
  const std::uint32_t* copies = nullptr;  // all bits set, or none
};

template <class From, class To>
struct ResizePass {
  // Outputs of an axis whose elements are neighbours. `ends` makes NaN canonical.
  void (*along)(const ResizeTaps<To>& taps, const From* from, To* to, bool ends);
  // Output o, a row of n, of an axis whose elements are rows: row i begins at from + i * stride.
  void (*across)(const ResizeTaps<To>& taps, std::int64_t o, const From* from, std::int64_t stride,
                 std::int64_t n, To* to, bool ends);
};

// The magnitudes among numbers, as bits of f32: the largest of the finite ones, and the least of
// those that are not zero, less 1; NaN and infinities are above any number.
struct ResizeRange {
  std::uint32_t most = 0, least = ~0U;
};

struct ResizePasses {
  ResizePass<float, float> f32;
  ResizePass<float, double> widening;
  ResizePass<double, double> f64;
  ResizeRange (*range)(const float* from, std::int64_t n);
  // y = sums rounded; sets the bits of those that an error of at most `error` leaves undecided, or
  // that are not finite. 0: they are exact.
  void (*decide)(const double* sums, std::int64_t n, double error, float* y,
                 std::uint64_t* undecided);
};

const ResizePasses* resize_passes(Isa isa);  // nullptr where the set is not compiled in

namespace avx2 {
extern const ResizePasses resize_passes;
}
namespace avx512 {
extern const ResizePasses resize_passes;
}

}  // namespace etalon
