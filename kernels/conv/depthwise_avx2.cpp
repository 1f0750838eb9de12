// The loops over windows for avx2.
#include "kernels/conv/depthwise_inl.h"
#include "kernels/conv/tap_rows_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

void depthwise(const DepthwiseCall& call) {
  simd::window_channel<F32, simd::WeightedSum<F32>>(call);
}
void max_pool(const DepthwiseCall& call) { simd::window_channel<F32, simd::Maximum<F32>>(call); }
void average_pool(const DepthwiseCall& call) {
  simd::window_channel<F32, simd::Average<F32>>(call);
}
void tap_rows_sum(const TapRowsCall& call) { simd::tap_rows<F32, simd::TapSum<F32>>(call); }
void tap_rows_average(const TapRowsCall& call) { simd::tap_rows<F32, simd::TapAverage<F32>>(call); }
void split_pairs(const PairRows& rows) { simd::split_pairs_of<F32>(rows); }

}  // namespace etalon::avx2
