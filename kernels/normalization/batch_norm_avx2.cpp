#include "kernels/normalization/batch_norm_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

void batch_norm(const BatchNormCall& call) { simd::batch_norm<F32>(call); }

}  // namespace etalon::avx2
