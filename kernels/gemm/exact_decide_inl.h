// The rounding test (docs/exact.md) of a vector of outputs, over an ExactF64 V
// (exact_vector_avx512.h): abs, narrow (to f32), same (lanes of two narrowed vectors that are equal
// in bits and no NaN) and store_narrow. Included only by the files of one instruction set each.
#pragma once

#include <cstdint>

#include "kernels/simd/unroll.h"

namespace etalon::simd {

// Sets the bits of those of n lanes from i on that are not decided.
ETALON_INLINE void note_undecided(std::uint32_t decided, std::int64_t i, int n,
                                  std::uint64_t* undecided) {
  const std::uint32_t lanes = (1U << n) - 1;
  undecided[i / 64] |= static_cast<std::uint64_t>(~decided & lanes) << (i % 64);
}

// Decides and stores one vector; e bounds the error of t but for the additions here (2^-51 t).
template <class V>
ETALON_INLINE void decide(typename V::Reg t, typename V::Reg e, float* y, std::int64_t i, int n,
                          std::uint64_t* undecided) {
  e = V::fma(V::set1(0x1p-51), V::abs(t), e);
  const std::uint32_t decided = V::same(V::narrow(V::sub(t, e)), V::narrow(V::add(t, e)));
  note_undecided(decided, i, n, undecided);
  V::store_narrow(y + i, V::narrow(t), n);
}

// The same of values that are what they stand for, where they are finite.
template <class V>
ETALON_INLINE void decide_exact(typename V::Reg t, float* y, std::int64_t i, int n,
                                std::uint64_t* undecided) {
  const auto y_of_t = V::narrow(t), nothing = V::narrow(V::sub(t, t));  // 0, or NaN
  note_undecided(V::same(nothing, nothing), i, n, undecided);
  V::store_narrow(y + i, y_of_t, n);
}

}  // namespace etalon::simd
