#include "kernels/activation/plain_rows.h"

#define ETALON_VECTOR_BYTES 16
#define ETALON_ROW plain_row_base
#include "kernels/activation/plain_rows.inc"
