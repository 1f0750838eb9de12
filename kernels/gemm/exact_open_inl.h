// Which outputs of narrowed vectors are undecided, over a vector type V (exact_vector_*.h);
// included only by the files of one instruction set each.
#pragma once

#include <cstdint>

#include "kernels/gemm/exact_lanes.h"
#include "kernels/simd/unroll.h"

namespace etalon::simd {

// Of two vectors of f64, narrowed to one.
template <class V, class Both>
ETALON_INLINE std::uint32_t exact_open_both(Both low, Both high, const ExactCells* cells) {
  return cells == nullptr ? V::differ(low, high) : V::apart(low, high, *cells);
}

// Of one vector of f64.
template <class V>
ETALON_INLINE std::uint32_t exact_open(typename V::Narrow low, typename V::Narrow high,
                                       const ExactCells* cells) {
  const std::uint32_t open = cells == nullptr
                                 ? ~V::same(low, high)
                                 : V::apart(V::both(low, low), V::both(high, high), *cells);
  return open & ((1U << V::lanes) - 1);
}

}  // namespace etalon::simd
