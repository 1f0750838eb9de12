#include "kernels/elementwise/f32_rows.h"

#define ETALON_VECTOR_BYTES 16
#define ETALON_ROW f32_row_base
#define ETALON_CLIP f32_clip_base
#include "kernels/elementwise/f32_rows.inc"
