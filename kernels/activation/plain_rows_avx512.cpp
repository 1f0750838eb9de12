#include "kernels/activation/plain_rows.h"

#define ETALON_VECTOR_BYTES 64
#define ETALON_ROW plain_row_avx512
#include "kernels/activation/plain_rows.inc"
