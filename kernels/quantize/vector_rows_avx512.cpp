#include "kernels/quantize/vector_rows.h"

#define ETALON_VECTOR_BYTES 64
#define ETALON_QUANTIZE quantize_row_avx512
#define ETALON_DEQUANTIZE dequantize_row_avx512
#include "kernels/quantize/vector_rows.inc"
