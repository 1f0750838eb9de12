// How an image is laid out for kernels/conv/exact_winograd.h: the columns and rows of patches as
// arrays of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/conv/depthwise.h"
#include "kernels/conv/exact_winograd_form.h"
#include "kernels/gemm/packed.h"

namespace etalon {

// Tiles of one image in lanes, row by row. A patch's columns are read from arrays of the image's,
// by the remainder of its columns: some of these have two or more of a patch, and as many lanes
// less one lie idle behind a row of tiles; or, where that saves vectors, one array for each of its
// columns and no idle lane.
struct TileGrid {
  std::int64_t outputs, patch, rows, columns, apart, count, arrays;
  TileGrid(const ConvGeometry& g, const WinogradForm& f, int lanes)
      : outputs(f.outputs),
        patch(f.patch),
        rows((g.window.axes[1].out + outputs - 1) / outputs),
        columns((g.window.axes[2].out + outputs - 1) / outputs) {
    // A vector in sixteen pays for arrays of up to twice the size.
    const bool dense = 16 * vector_strips(rows * columns, lanes) <=
                       15 * vector_strips(rows * (columns + behind()) - behind(), lanes);
    arrays = dense ? patch : outputs;
    apart = dense ? columns : columns + behind();
    count = rows * apart - (apart - columns);
  }
  std::int64_t behind() const { return (patch - 1) / outputs; }     // a patch goes on for so many
  std::int64_t phase() const { return (rows + behind()) * apart; }  // elements of an array
  std::int64_t channel() const { return outputs * arrays * phase(); }
  std::int64_t width() const { return outputs * (columns + behind()); }  // of all patches, and more
  std::int64_t height() const { return outputs * (rows + behind()); }
  std::int64_t at(std::int64_t i, std::int64_t j) const {  // row i, column j of the first patch
    return (i % outputs * arrays + j % arrays) * phase() + i / outputs * apart + j / arrays;
  }
};

// Makes the arrays of a channel of a convolution of some stride; has memory of its own for one.
class ChannelSplit {
 public:
  ChannelSplit(Isa isa, const ConvGeometry& g, std::int64_t stride, const TileGrid& grid);
  // Of the remainders (y, x) of the channel's coordinates: rows by their remainder in the tiles,
  // zeros in the padding.
  void run(const float* from, std::int64_t remainder_y, std::int64_t remainder_x, float* to);

 private:
  // The channel as one of stride 1, with its padding.
  void pad(const float* from, std::int64_t remainder_y, std::int64_t remainder_x);
  // to[i] = from[i * stride].
  void take(const float* from, std::int64_t count, float* to);
  // Every m-th row of an image, its columns to m arrays.
  void deal(const float* image, std::int64_t rows, float* arrays);

  const ConvGeometry& g_;
  const std::int64_t stride_;
  const TileGrid& grid_;
  const SplitPairs split_;
  std::vector<float> padded_, half_;
};

}  // namespace etalon
