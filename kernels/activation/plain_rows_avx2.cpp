#include "kernels/activation/plain_rows.h"

#define ETALON_VECTOR_BYTES 32
#define ETALON_ROW plain_row_avx2
#include "kernels/activation/plain_rows.inc"
