// The loops over windows for avx2.
#include <immintrin.h>

#include "kernels/conv/depthwise_inl.h"
#include "kernels/conv/tap_rows_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {
namespace {

struct Whole : F32 {
  // Lane i + 1 in lane i.
  ETALON_INLINE static Reg next_lane(Reg v) {
    return _mm256_permutevar8x32_ps(v, _mm256_setr_epi32(1, 2, 3, 4, 5, 6, 7, 0));
  }
};

}  // namespace

void depthwise(const DepthwiseCall& call) {
  simd::window_channel<F32, simd::WeightedSum<F32>>(call);
}
void max_pool(const DepthwiseCall& call) { simd::window_channel<F32, simd::Maximum<F32>>(call); }
void average_pool(const DepthwiseCall& call) {
  simd::window_channel<F32, simd::Average<F32>>(call);
}
void tap_rows_sum(const TapRowsCall& call) { simd::tap_rows<Whole, simd::TapSum<Whole>>(call); }
void tap_rows_average(const TapRowsCall& call) {
  simd::tap_rows<Whole, simd::TapAverage<Whole>>(call);
}
void split_pairs(const PairRows& rows) { simd::split_pairs_of<F32>(rows); }

}  // namespace etalon::avx2
