#include <immintrin.h>

#include "kernels/reduce/f32_steps.h"

#define ETALON_VECTOR_BYTES 32
#define ETALON_STEPS step_functions_avx2
#define ETALON_VECTOR_FMA(x, s)                                                                    \
  __builtin_bit_cast(Vector,                                                                       \
                     _mm256_fmadd_ps(__builtin_bit_cast(__m256, x), __builtin_bit_cast(__m256, x), \
                                     __builtin_bit_cast(__m256, s)))
#include "kernels/reduce/f32_steps.inc"
