#include "kernels/quantize/vector_rows.h"
#include "kernels/simd/unroll.h"

#define ETALON_VECTOR_BYTES 16
#define ETALON_QUANTIZE quantize_row_base
#define ETALON_DEQUANTIZE dequantize_row_base
#define ETALON_CUT cut_row_base
#include "kernels/quantize/vector_rows.inc"
