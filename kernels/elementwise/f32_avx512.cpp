#include "kernels/elementwise/f32_rows.h"

#define ETALON_VECTOR_BYTES 64
#define ETALON_ROW f32_row_avx512
#define ETALON_CLIP f32_clip_avx512
#include "kernels/elementwise/f32_rows.inc"
