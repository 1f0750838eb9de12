// All lanes of a warp on the host (kernels/backends/cuda/row_warp.h).
#pragma once

#include <cstdint>
#include <iterator>
#include <numeric>

#include "kernels/backends/cuda/row_warp.h"

namespace etalon {

struct HostRowWarp {
  static constexpr int kLanes = 32;
  int index = 0;
  int lane(int i) const { return i; }
  bool first() const { return true; }
  void meet() const {}
  std::uint32_t ballot(const bool (&b)[kLanes]) const {
    std::uint32_t all = 0;
    for (int i = 0; i < kLanes; ++i) all |= (b[i] ? 1U : 0U) << i;
    return all;
  }
  float largest(const float (&x)[kLanes]) const {
    return std::accumulate(std::begin(x), std::end(x), -__builtin_inff(), larger_of);
  }
};

}  // namespace etalon
