// Functions of lanes.h that f32 arithmetic decides, twice as many lanes as doubles have.
#pragma once

#include "kernels/activation/lanes_base_inl.h"

namespace etalon {

template <class D>
struct LaneFloat {
  using F = typename D::Floats;

  // f(vector of floats) over an array, for what one operation decides.
  template <class Op>
  ETALON_INLINE static void each(const float* x, float* y, std::int64_t count, Op f) {
    std::int64_t i = 0;
    for (; i + F::lanes <= count; i += F::lanes) F::store(y + i, f(F::load(x + i)));
    if (i < count) {
      const auto m = F::first(static_cast<int>(count - i));
      F::store(y + i, f(F::load(x + i, m)), m);
    }
  }
};

}  // namespace etalon
