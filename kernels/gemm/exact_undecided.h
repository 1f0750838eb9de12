// The outputs that a first pass by vectors leaves undecided, as bits (exact_decide_inl.h).
#pragma once

#include <array>
#include <cstdint>

#include "kernels/gemm/exact.h"

namespace etalon {

// Elements that one call of the lanes takes, and the bits it sets for them.
inline constexpr std::int64_t kDecidedAtOnce = 4096;
using UndecidedBits = std::array<std::uint64_t, kDecidedAtOnce / 64>;

// f(i) for each bit of the first n that is set; clears them.
template <class F>
void each_undecided(UndecidedBits& bits, std::int64_t n, const ExactSteps& steps, const F& f) {
  std::int64_t left = 0;
  for (std::int64_t word = 0; word < (n + 63) / 64; ++word) {
    std::uint64_t& w = bits[static_cast<std::size_t>(word)];
    for (; w != 0; w &= w - 1) {
      ++left;
      if (steps.rounding_test && steps.definition) f(word * 64 + __builtin_ctzll(w));
    }
  }
  exact_counts().outputs.fetch_add(n, std::memory_order_relaxed);
  exact_counts().undecided.fetch_add(left, std::memory_order_relaxed);
}

}  // namespace etalon
