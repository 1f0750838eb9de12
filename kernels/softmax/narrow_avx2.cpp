// narrow.h for avx2.
#include "kernels/simd/avx2.h"
#include "kernels/softmax/narrow_inl.h"

namespace etalon {

const NarrowSoftmax narrow_softmax_avx2 = {avx2::F32::lanes, simd::narrow_run<avx2::F32>};

}  // namespace etalon
