#include "kernels/quantize/vector_rows.h"

#define ETALON_VECTOR_BYTES 32
#define ETALON_QUANTIZE quantize_row_avx2
#define ETALON_DEQUANTIZE dequantize_row_avx2
#include "kernels/quantize/vector_rows.inc"
