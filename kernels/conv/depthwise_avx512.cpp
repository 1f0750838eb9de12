// The depthwise loop for avx512.
#include "kernels/conv/depthwise_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

void depthwise(const DepthwiseCall& call) { simd::depthwise_channel<F32>(call); }

}  // namespace etalon::avx512
