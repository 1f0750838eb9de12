// max_pool on f32, two spatial axes, windows 2 or 3 columns wide that step by two columns, or by
// one where they have as many rows and step by one row; of 3 columns also by three, where two
// vectors hold a row.
//
// Each row of the input is reduced along its columns once, by vectors of neighbouring outputs (even
// and odd columns are one permutation apart), and the windows' rows are then joined: for 3x3
// windows of stride 2 that is a third of the comparisons, and nothing is copied first. Windows that
// step by one go down columns of vectors with the rows above in registers. Same bits:
// within a row, then row by row, is the order of the definition, so a tie of +0 and -0 keeps the
// first. The comparison of the processor does not let NaN win, so a channel that holds NaN or an
// infinity (found on the way: x * 0 is then NaN) is left to the general loop (fast.cpp). Padding is
// the least finite number: among finite ones it wins in no window that has a tap inside.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/window.h"

namespace etalon {

// Which lanes of the four loads of one vector of outputs lie inside the row.
struct RowLoads {
  // Step two: from column 2i, 2i + lanes, and both two columns further; step three: the first two
  // of these. Step one: by column of taps.
  std::uint16_t inside[4] = {};
  bool whole = false;
};

struct MaxRowsCall {
  const float* x = nullptr;  // one channel
  float* y = nullptr;
  float* kept = nullptr;  // MaxRows::kept_size floats
  // Of a pair of channels: from the first to the second.
  std::int64_t other_x = 0, other_y = 0;
  std::int64_t in_columns = 0, out_rows = 0, out_columns = 0;
  std::int64_t tap_columns = 0, pad = 0;  // pad: columns in front
  std::int64_t step = 0, pad_rows = 0, in_rows = 0;
  const std::int64_t* row_begin = nullptr;  // by row of outputs: rows of the input in its windows
  const std::int64_t* row_end = nullptr;
  const RowLoads* loads = nullptr;  // by vector of outputs
};

namespace avx512 {
// False where the channel holds NaN or an infinity; y is then not the result.
bool max_rows(const MaxRowsCall& call);
// The same of two channels.
bool max_rows_pair(const MaxRowsCall& call);
}  // namespace avx512
namespace avx2 {
bool max_rows(const MaxRowsCall& call);
bool max_rows_pair(const MaxRowsCall& call);
}  // namespace avx2

class MaxRows {
 public:
  MaxRows(const Window& window, int lanes);
  bool serves() const { return serves_; }
  // A row of outputs fills half a vector at most: the other half takes a second channel.
  bool pairs() const { return pairs_; }
  std::int64_t kept_size() const { return kept_size_; }
  // All but x, y and kept.
  MaxRowsCall call() const;

 private:
  Window window_;
  bool serves_ = false, pairs_ = false;
  std::int64_t kept_size_ = 0;
  std::vector<std::int64_t> row_begin_, row_end_;
  std::vector<RowLoads> loads_;
};

}  // namespace etalon
