// resize under seq, one axis at a time: the definition nests its sums, the last axis innermost, and
// an inner sum hangs on no outer place; so each is made once, for all who ask for it, last axis
// first, with the same operations.
#pragma once

#include <cstdint>

namespace etalon {

// The taps of one axis, by tap and output, at [tap * out + output]: an output is the chain
// fma(weight, element, s) from +0 over its taps in order, or, where it copies, the element at tap
// 0.
struct ResizeTaps {
  std::int64_t out = 0;
  int most = 0;                         // taps of any output
  const std::int32_t* index = nullptr;  // -1: no such tap
  const float* weight = nullptr;
  const std::uint32_t* copies = nullptr;  // all bits set, or none
};

struct ResizePasses {
  // Outputs of an axis whose elements are neighbours. `ends` makes NaN canonical.
  void (*along)(const ResizeTaps& taps, const float* from, float* to, bool ends);
  // Output o of an axis whose elements are rows of n: row i begins at from + i * n.
  void (*across)(const ResizeTaps& taps, std::int64_t o, const float* from, std::int64_t n,
                 float* to, bool ends);
};

namespace avx2 {
extern const ResizePasses resize_passes;
}
namespace avx512 {
extern const ResizePasses resize_passes;
}

}  // namespace etalon
