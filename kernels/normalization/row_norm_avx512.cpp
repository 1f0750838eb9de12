// row_norm.h for avx512.
#include "kernels/normalization/row_norm_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

void row_affine(const RowAffine& r) { simd::row_affine<F32>(r); }

}  // namespace etalon::avx512
