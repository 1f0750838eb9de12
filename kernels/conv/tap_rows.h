// Depthwise convolution and average pooling, f32, contract seq, of two spatial axes: windows of 3x3
// and 5x5 that step by two, and of 3x3 that step by one. Vectors of neighbouring outputs of one
// row, column of vectors after column of vectors.
//
// A row of the input is loaded once for all rows of outputs it stands under. Of step two it is
// loaded as pairs of vectors whose even and odd elements are two neighbouring taps, so that nothing
// is split by remainder first (depthwise.h does it, and it took as long as the sums); what is
// loaded stays in registers while the window moves down. Of step one each column of taps is a load,
// and the three sums that the row belongs to stay in registers instead: three loads for nine fma,
// where a vector of outputs by itself needs nine, most of them across two cache lines.
//
// Same bits: a lane is one output and takes its taps row by row. Rows of taps in the padding are
// not walked, columns of taps there add -0 (tap_rows_inl.h): they are no terms, and nothing outside
// the row is read.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/window.h"

namespace etalon {

struct ChannelEnding;  // kernels/conv/depthwise.h

// One vector of outputs of a row.
struct TapColumn {
  std::int64_t first = 0;  // output
  // Step two, of each vector that is loaded: the elements inside the row.
  std::uint16_t inside[6] = {};
  std::uint16_t taps[5] = {};  // of each column of taps: the outputs for which it is a term
  std::uint16_t outputs = 0;
  bool whole = false;  // step one: no mask leaves a lane out
};

// Rows of the input under the first and last row of taps, and the rows of taps inside.
struct TapRow {
  std::int64_t first = 0, begin = 0, end = 0;
};

// One channel of one image.
struct TapRowsCall {
  const float* x = nullptr;
  const float* w = nullptr;  // nullptr for pools
  const float* bias = nullptr;
  const float* divisor = nullptr;  // of pools, by output
  const ChannelEnding* ending = nullptr;
  float* y = nullptr;
  std::int64_t in_rows = 0, in_columns = 0, out_rows = 0, out_columns = 0;
  std::int64_t pad = 0, pad_rows = 0;  // columns and rows in front
  int step = 0, taps = 0;              // of both axes
  std::int64_t column = 0;             // outputs from one vector to the next
  bool narrow = false;                 // vectors of half the length: rows fill no more
  // Step two: rows of outputs that all columns go through before the next, and the elements of x
  // and y from one such band to the next, whose lines are asked for meanwhile.
  std::int64_t band = 0, x_ahead = 0, y_ahead = 0;
  const TapRow* rows = nullptr;        // step two: by row of outputs
  const TapColumn* columns = nullptr;  // by vector of outputs
};

namespace avx512 {
void tap_rows_sum(const TapRowsCall& call);
void tap_rows_average(const TapRowsCall& call);
}  // namespace avx512
namespace avx2 {
void tap_rows_sum(const TapRowsCall& call);
void tap_rows_average(const TapRowsCall& call);
}  // namespace avx2

class TapRows {
 public:
  TapRows(const Window& window, int lanes);
  // Where this way is the faster one.
  bool serves() const { return serves_; }
  // All but x, w, bias, divisor and y.
  TapRowsCall call() const;

 private:
  Window window_;
  bool serves_ = false, narrow_ = false;
  std::int64_t column_ = 0;
  std::vector<TapRow> rows_;
  std::vector<TapColumn> columns_;
};

}  // namespace etalon
