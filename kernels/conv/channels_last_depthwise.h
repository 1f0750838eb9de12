// One input and one output channel a group, channels last: a vector of channels is a run of x, of y
// and of the packed weights, so nothing is turned, copied or masked.
//
// A tile is up to kDepthwiseRun neighbouring outputs of a row. Of each row of the window it goes
// through the inputs it meets once, and an input meets every tap that it is under: input j stands
// under tap s of output (j - s) / stride. Going through j upwards an output meets its taps upwards,
// row after row: its chain is the definition's. Inputs in the padding are left out of that walk, so
// they are no terms.
#pragma once

#include <cstdint>

namespace etalon {

inline constexpr int kDepthwiseRun = 7;

// Outputs [first, first + count) of one row, all channels.
struct DepthwiseRun {
  const float* x = nullptr;     // of row 0, column 0 of the image
  const float* w = nullptr;     // [tap][channels]
  const float* bias = nullptr;  // [channels]
  float* y = nullptr;           // of output `first`
  std::int64_t channels = 0, in_rows = 0, in_columns = 0;
  std::int64_t tap_rows = 0, tap_columns = 0;
  std::int64_t row = 0;     // of the image, under the first row of taps; may be negative
  std::int64_t column = 0;  // the same of output `first`
  std::int64_t row_dilation = 1, column_dilation = 1, stride = 1;
  std::int64_t count = 0;
};

namespace avx512 {
void depthwise_run(const DepthwiseRun& run);
}
namespace avx2 {
void depthwise_run(const DepthwiseRun& run);
}

}  // namespace etalon
