#include "kernels/normalization/batch_norm_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

void batch_norm(const BatchNormCall& call) { simd::batch_norm<F32>(call); }

}  // namespace etalon::avx512
