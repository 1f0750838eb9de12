#include "kernels/pool/max_rows_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

bool max_rows(const MaxRowsCall& call) { return simd::max_rows<F32>(call); }
bool max_rows_pair(const MaxRowsCall& call) { return simd::max_rows_pair<F32>(call); }

}  // namespace etalon::avx512
