// The vector type of words of two bf16 (pairs.h). For files compiled for AVX512_BF16.
#pragma once

#include "kernels/simd/avx512.h"

namespace etalon::avx512bf16 {

// f32 sums; what is multiplied are words of two bf16.
struct Pairs : avx512::F32 {
  static constexpr int taps = 2;
  ETALON_INLINE static Reg join(Reg first, Reg second) {
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(first),
                                               _mm512_srli_epi32(_mm512_castps_si512(second), 16)));
  }
  ETALON_INLINE static Reg fma(Reg a, Reg b, Reg c) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(c) : "v"(a), "v"(b));
    return c;
  }
  ETALON_INLINE static void fma_broadcast(Reg& acc, const float* a, Reg b) {
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(b), "m"(*a));
  }
};

}  // namespace etalon::avx512bf16
