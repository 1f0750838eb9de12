// One input and one output channel a group, channels last: a vector of channels is a run of x, of y
// and of the packed weights, so nothing is turned, copied or masked.
//
// A tile is up to kDepthwiseRun neighbouring outputs of a row. Of each row of the window it goes
// through the inputs it meets once, and an input meets every tap that it is under: input j stands
// under tap s of output (j - s) / stride. Going through j upwards an output meets its taps upwards,
// row after row: its chain is the definition's. Inputs in the padding are left out of that walk, so
// they are no terms.
//
// Windows of 3x3 that step by one or two walk down the image with such a tile of every row of
// outputs that the row of inputs belongs to, three or two of them, and the nine weights, all in
// registers: each input is read once, where rows of outputs by themselves read it for each of them,
// from the second cache, whose rate was the limit.
#pragma once

#include <cstdint>

namespace etalon {

inline constexpr int kDepthwiseRun = 7;

// What follows a sum before it is stored (UsualSteps of engine/backend/pointwise.h, without an
// addition).
struct LaneEnding {
  const float *mean = nullptr, *factor = nullptr, *bias = nullptr;  // by channel; or no affine
  bool fused = true, relu = false;
};

// Rows of outputs of one image, some of its channels.
struct DepthwiseRun {
  const float* x = nullptr;     // of row 0, column 0 of the image
  const float* w = nullptr;     // by vectors of channels: [tap][lanes] of each
  const float* bias = nullptr;  // [channels]
  float* y = nullptr;           // of the first row
  std::int64_t channels = 0, first_channel = 0, last_channel = 0;
  std::int64_t in_rows = 0, in_columns = 0;
  std::int64_t tap_rows = 0, tap_columns = 0;
  std::int64_t row = 0;     // of the image, under the first row of taps; may be negative
  std::int64_t column = 0;  // the same of each row's first output
  std::int64_t row_dilation = 1, column_dilation = 1, row_stride = 1, stride = 1;
  std::int64_t rows = 0, count = 0;  // of outputs
  const LaneEnding* ending = nullptr;
};

namespace avx512 {
void depthwise_run(const DepthwiseRun& run);
}
namespace avx2 {
void depthwise_run(const DepthwiseRun& run);
}

}  // namespace etalon
