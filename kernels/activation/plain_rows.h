// Activations whose f32 result is a selection, a change of bits or one IEEE operation, on rows of
// n consecutive elements: the same text, compiled for 4, 8 and 16 floats, gives the same bits. NaN
// results are canonical.
#pragma once

#include <cstdint>

namespace etalon {

// thresholded_relu: x > p ? x : +0. shrink: x + q below -p, x - q above p, else +0.
enum class PlainOp { abs, neg, sign, floor, ceil, round, thresholded_relu, shrink };
struct PlainParams {
  float p = 0, q = 0;
};

using PlainRow = void (*)(PlainOp op, const PlainParams& params, const float* x, float* y,
                          std::int64_t n);
void plain_row_base(PlainOp op, const PlainParams& params, const float* x, float* y,
                    std::int64_t n);
void plain_row_avx2(PlainOp op, const PlainParams& params, const float* x, float* y,
                    std::int64_t n);
void plain_row_avx512(PlainOp op, const PlainParams& params, const float* x, float* y,
                      std::int64_t n);

}  // namespace etalon
