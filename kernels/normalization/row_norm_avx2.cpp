// row_norm.h for avx2.
#include "kernels/normalization/row_norm_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

void row_affine(const RowAffine& r) { simd::row_affine<F32>(r); }

}  // namespace etalon::avx2
