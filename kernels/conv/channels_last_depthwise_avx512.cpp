// The loops of channels_last_depthwise.h for avx512.
#include <immintrin.h>

#include "kernels/conv/channels_last_depthwise_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

void depthwise_run(const DepthwiseRun& run) { simd::depthwise_run_of<F32>(run); }

}  // namespace etalon::avx512
