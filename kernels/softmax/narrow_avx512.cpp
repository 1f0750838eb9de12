// narrow.h for avx512.
#include "kernels/simd/avx512.h"
#include "kernels/softmax/narrow_inl.h"

namespace etalon {

const NarrowSoftmax narrow_softmax_avx512 = {avx512::F32::lanes, simd::narrow_run<avx512::F32>};

}  // namespace etalon
