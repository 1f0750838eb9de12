#include <immintrin.h>

#include "kernels/reduce/f32_steps.h"

#define ETALON_VECTOR_BYTES 64
#define ETALON_STEPS step_functions_avx512
#define ETALON_VECTOR_FMA(x, s)                                                                    \
  __builtin_bit_cast(Vector,                                                                       \
                     _mm512_fmadd_ps(__builtin_bit_cast(__m512, x), __builtin_bit_cast(__m512, x), \
                                     __builtin_bit_cast(__m512, s)))
#include "kernels/reduce/f32_steps.inc"
