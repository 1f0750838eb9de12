// Rows of f32 arithmetic: what a fast kernel does with n consecutive outputs.
//
// Each output is one IEEE operation, so the width of a vector never shows: the same text, compiled
// for 4, 8 and 16 floats, gives the same bits. NaN results are made canonical before they are
// stored.
#pragma once

#include <cstdint>

namespace etalon {

// prelu: a where it is not negative, else a b. sum: +0 + a + b, which is a + b but that it is never
// -0.
enum class F32Op { add, sub, mul, div, max, min, prelu, sum };

// y[i] = a[i] op b[i]; an operand whose step is 0 is one element for all.
using F32Row = void (*)(F32Op op, float* y, const float* a, const float* b, std::int64_t n,
                        bool a_varies, bool b_varies);

// y[i] = x[i] held between low and high, neither of them NaN.
using F32Clip = void (*)(float* y, const float* x, float low, float high, std::int64_t n);

#define ETALON_F32_ROWS(set)                                                             \
  void f32_row_##set(F32Op op, float* y, const float* a, const float* b, std::int64_t n, \
                     bool a_varies, bool b_varies);                                      \
  void f32_clip_##set(float* y, const float* x, float low, float high, std::int64_t n);
ETALON_F32_ROWS(base)
ETALON_F32_ROWS(avx2)
ETALON_F32_ROWS(avx512)
#undef ETALON_F32_ROWS

}  // namespace etalon
