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

// The tiles of some images in lanes, image after image, row by row. A patch's columns are read from
// arrays of the images', by the remainder of its columns: some of these have two or more of a
// patch, and as many lanes less one lie idle behind a row of tiles; or one array for each of its
// columns and no idle lane. Its rows likewise, with idle rows of tiles behind an image.
struct TileGrid {
  std::int64_t outputs, patch;            // of a tile
  std::int64_t first_row, rows, columns;  // of the tiles of an image
  std::int64_t images, row_arrays, column_arrays;
  std::int64_t apart, image;    // from row to row of tiles, from image to image, in lanes
  std::int64_t count, vectors;  // lanes, idle ones between tiles among them

  // Rows [first_row, last_row) of the tiles of so many images. The fewest arrays but where more
  // save a vector in sixteen.
  TileGrid(const ConvGeometry& g, const WinogradForm& f, int lanes, std::int64_t images,
           std::int64_t first_row, std::int64_t last_row);

  // So far a patch goes on in the arrays of remainders.
  std::int64_t behind() const { return (patch - 1) / outputs; }
  std::int64_t phase() const { return images * image; }  // elements of an array
  std::int64_t channel() const { return row_arrays * column_arrays * phase(); }
  std::int64_t width() const { return outputs * (columns + behind()); }  // of all patches, and more
  std::int64_t height() const { return outputs * (rows + behind()); }
  std::int64_t at(std::int64_t i, std::int64_t j) const {  // row i, column j of the first patch
    return (i % row_arrays * column_arrays + j % column_arrays) * phase() + i / row_arrays * apart +
           j / column_arrays;
  }
};

// Makes the arrays of a channel of a convolution of some stride; has memory of its own for one.
class ChannelSplit {
 public:
  ChannelSplit(Isa isa, const ConvGeometry& g, std::int64_t stride, const TileGrid& grid);
  // Of the remainders (y, x) of its coordinates, zeros in the padding. `to` is the channel's first
  // array, where the image begins.
  void run(const float* from, std::int64_t remainder_y, std::int64_t remainder_x, float* to);

 private:
  // The channel as one of stride 1, with its padding.
  void pad(const float* from, std::int64_t remainder_y, std::int64_t remainder_x);
  // to[i] = from[i * stride].
  void take(const float* from, std::int64_t count, float* to);
  // Every m-th row of an image, so many, its columns to m arrays.
  void deal(const float* image, std::int64_t rows, float* arrays);

  const ConvGeometry& g_;
  const std::int64_t stride_;
  const TileGrid& grid_;
  const SplitPairs split_;
  std::vector<float> padded_, half_;
};

}  // namespace etalon
