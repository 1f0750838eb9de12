// The depthwise loop for avx2.
#include "kernels/conv/depthwise_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

void depthwise(const DepthwiseCall& call) { simd::depthwise_channel<F32>(call); }

}  // namespace etalon::avx2
