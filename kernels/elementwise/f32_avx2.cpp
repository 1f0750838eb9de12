#include "kernels/elementwise/f32_rows.h"

#define ETALON_VECTOR_BYTES 32
#define ETALON_ROW f32_row_avx2
#define ETALON_CLIP f32_clip_avx2
#include "kernels/elementwise/f32_rows.inc"
