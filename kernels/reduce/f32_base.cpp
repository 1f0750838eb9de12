#include "kernels/reduce/f32_steps.h"

#define ETALON_VECTOR_BYTES 16
#define ETALON_STEPS step_functions_base
#include "kernels/reduce/f32_steps.inc"
