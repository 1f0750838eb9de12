// Whether an operation on floats met or made a number below the normal ones, by the flags that the
// processor keeps of that: stores before a question, and loads after a wish to forget, mark what is
// meant.
#pragma once

#include <immintrin.h>

#include "kernels/simd/unroll.h"

namespace etalon::simd {

inline constexpr unsigned kUnderflowFlags = _MM_EXCEPT_DENORM | _MM_EXCEPT_UNDERFLOW;

ETALON_INLINE void forget_underflow() {
  asm volatile("" : : : "memory");
  if (const unsigned flags = _mm_getcsr(); (flags & kUnderflowFlags) != 0)
    _mm_setcsr(flags & ~kUnderflowFlags);
  asm volatile("" : : : "memory");
}
ETALON_INLINE bool underflowed() {
  asm volatile("" : : : "memory");
  return (_mm_getcsr() & kUnderflowFlags) != 0;
}

}  // namespace etalon::simd
