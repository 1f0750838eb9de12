// arg_max and arg_min of f32 by vectors: lanes are columns, or, along a row, every so many of its
// elements, joined at the end. A comparison rounds nothing, so only ties ask for care: NaN is above
// all in both directions, -0 equals +0, and of equals the first or the last wins.
#pragma once

#include <cstdint>

namespace etalon {

struct ArgLanes {
  // to[c] = the place of the best of x[c], x[c + stride], ... x[c + (extent - 1) * stride], c < n;
  // extent < 2^31.
  void (*columns)(const float* x, std::int64_t n, std::int64_t extent, std::int64_t stride,
                  std::int64_t* to) = nullptr;
  std::int64_t (*row)(const float* x, std::int64_t extent) = nullptr;
};

namespace avx2 {
const etalon::ArgLanes& arg_lanes(bool largest, bool last);
}
namespace avx512 {
const etalon::ArgLanes& arg_lanes(bool largest, bool last);
}

}  // namespace etalon
