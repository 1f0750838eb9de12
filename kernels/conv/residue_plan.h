// How the bytes of an image are laid out, and how a window of them becomes steps of 64 terms.
//
// Planes hold the padded image channels last, `pitch` bytes from pixel to pixel. Sixteen outputs
// side by side read rows of bytes that lie stride * pitch apart, which is all that a tile
// instruction asks for: a tile is loaded from the planes as they are, once for each tap. A sum of
// integers has no order, so k may walk (tap, channel).
//
// Where steps do not divide by 64 channels, the weights behind the last channel are zeros and what
// the bytes there are does not matter. Either each tap is walked alone, or, where channels are
// packed without gaps (pitch = channels), a row of taps as one run. With few channels both waste
// most of the tile; then windows are copied together, tap after tap (`gathered`).
//
// Sixteen outputs are neighbours of a row or, where that wastes less, of the image with its
// padding: outputs behind the end of a row are then computed and dropped, which keeps rows one
// distance apart.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/gemm/residue_operand.h"

namespace etalon {

// An axis of the planes: coordinate i holds the input's i * step - pad_begin, zero outside of it.
struct ResidueAxis {
  std::int64_t in = 1, extent = 1, step = 1, pad_begin = 0;
  std::int64_t kernel = 1, dilation = 1, stride = 1, out = 1;  // of the window over the planes
};

struct ResidueStrip {
  std::int64_t base = 0;  // byte of its first output's first tap
  int rows = 0, first_run = 0, runs = 0;
  std::int64_t first_row = 0, last_row = 0;  // of outputs, (z, y) joined
};

// How a window becomes steps of 64: tap after tap copied together; rows of taps as runs; or each
// tap alone.
struct ResidueWindowSteps {
  bool gathered = false, as_runs = false, flat = false;  // flat: outputs behind a row are dropped
  std::int64_t count = 0, strips = 0;                    // of 64 terms; of 16 outputs
};
ResidueWindowSteps residue_window_steps(const ConvGeometry& g);

struct ResiduePlan {
  ResidueAxis d, h, w;
  std::int64_t channels = 0, out = 0, groups = 0;
  std::int64_t pitch = 0, row = 0, rows = 0, plane = 0;  // bytes; rows of all groups
  std::int64_t group_rows = 0;
  bool gathered = false;
  std::int64_t run = 0;              // bytes of a run
  std::vector<std::int64_t> offset;  // of each run of a window
  std::vector<std::int64_t> steps;   // where a tile starts in each step
  std::int64_t step_count = 0;
  std::int64_t columns = 0;  // strips of output channels
  std::vector<ResidueStrip> strips;
  std::vector<ResidueRun> runs;  // of all strips

  explicit ResiduePlan(const ConvGeometry& g);
  // Where the weight of (channel, tap) goes in a row of step_count * 64.
  std::int64_t weight_at(std::int64_t channel, std::int64_t tap) const;
};

// How strips of outputs by strips of channels are cut into blocks, whose operands are in memory
// both: what is read again should be in the second cache, of 2 MiB, beside the sums (11 KiB a
// tile). Either that are the weights of a block's channels, all planes of them, while rows pass by;
// or, where sums are long, both panels of one plane, and the sums are as many as may be.
// `overlaps`: windows share their bytes.
struct ResidueWindowBlocks {
  std::int64_t rows = 2, columns = 2, tall = 0, wide = 0;
  ResidueWindowBlocks(std::int64_t row_strips, std::int64_t column_strips, std::int64_t steps,
                      bool overlaps, int threads);
  // About what multiplying and rounding takes on one thread.
  double cycles() const;

 private:
  std::int64_t row_strips_, column_strips_, steps_;
  bool overlaps_, panel_stays_ = false;
};

}  // namespace etalon
