// unroll<N>(f) calls f(std::integral_constant<int, 0>) ... f(<int, N-1>): a loop that is written
// out at compile time by every compiler, so that arrays of vectors indexed by it live in registers.
#pragma once

#include <utility>

// Code of one instruction set must never be merged with another's by the linker, so whatever the
// vector templates call is inlined.
#if defined(__CUDACC__)
#define ETALON_INLINE __host__ __device__ __forceinline__
#define ETALON_INLINE_LAMBDA
#else
#define ETALON_INLINE [[gnu::always_inline]] inline
#define ETALON_INLINE_LAMBDA __attribute__((always_inline))
#endif

namespace etalon::simd {

template <class F, int... I>
ETALON_INLINE void unroll_sequence(F& f, std::integer_sequence<int, I...>) {
  (f(std::integral_constant<int, I>{}), ...);
}
template <int N, class F>
ETALON_INLINE void unroll(F f) {
  unroll_sequence(f, std::make_integer_sequence<int, N>{});
}

}  // namespace etalon::simd
