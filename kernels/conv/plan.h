// How a convolution becomes a product of packed operands, without an im2col matrix in memory.
//
// k walks (channel, tap) ascending, the contract's crs, which is the layout of w itself. For one
// output pixel the inputs under k = 0, 1, ... lie at base(pixel) + offset[k]; neighbouring pixels
// of a row are neighbours in memory when the row's stride is 1. Where it is not, or where taps
// reach into padding, the image is first copied with its padding as zeros and each row split into
// `phases`, columns of equal remainder by the stride, so that this holds again.
//
// Padding is not a term of the sum, and a zero from the copy is one: fma(0, w, s) = s unless s is
// -0 or w is not finite. Those cases are found (a zero sum in an output whose window touches
// padding; a weight that is not finite) and computed again with such terms masked out.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/gemm/tile.h"

namespace etalon {

// Rows of which every second element goes to `even`, the others to `odd`.
struct PairRows {
  const float* from = nullptr;
  std::int64_t from_row = 0, rows = 0, count = 0;  // elements of a row
  float* even = nullptr;
  float* odd = nullptr;  // nullptr where nobody reads them
  std::int64_t to_row = 0;
};

// From the pixels of a tile to those whose lines it asks for.
inline constexpr std::int64_t kAheadPixels = 32;

struct ConvPlan {
  ConvGeometry g;
  std::int64_t k = 0;       // terms of a full sum
  std::int64_t pixels = 0;  // outputs of one channel of one image
  bool copied = false;      // the input is read from a padded copy
  bool flat = false;        // all pixels of an image are neighbours in memory
  bool padded = false;      // some window touches padding
  std::int64_t image_stride = 0, channel_stride = 0;  // of what is read
  std::int64_t plane_stride = 0, row_stride = 0;
  std::int64_t phase_stride = 0;
  std::vector<std::int64_t> phases;  // remainders of columns that some tap reads
  // Of each in a copied row: column j holds element j * stride + shift of the input, begin <= j <
  // end; those from `rest` on where the others were split in pairs.
  struct PhaseColumns {
    std::int64_t shift = 0, begin = 0, end = 0, rest = 0;
  };
  std::vector<PhaseColumns> columns;
  // Elements of a row to be split in pairs, and where in a copied row even and odd ones begin.
  std::int64_t split_count = 0, split_even = 0, split_odd = 0;
  std::vector<char> planes_read, rows_read;  // which ones of the padded input some tap reads
  std::vector<std::int64_t> offset;          // [k], then some that are only asked for ahead

  explicit ConvPlan(const ConvGeometry& geometry);

  // Planes and rows of a padded channel, behind the last of each the end.
  struct Rows {
    std::int64_t first_plane = 0, end_plane = 0, first = 0, end = 0;
  };
  Rows all_rows() const;
  // Those that output pixels [first, end) of an image read.
  Rows rows_of(std::int64_t first, std::int64_t end) const;
  // Copies these of a channel of an image to where they stand in `to` (channel_stride elements).
  // `split`, where given, serves rows of stride 2.
  void copy_rows(const float* from, float* to, const Rows& rows,
                 void (*split)(const PairRows&) = nullptr) const;
  void copy_channel(const float* from, float* to, void (*split)(const PairRows&) = nullptr) const {
    copy_rows(from, to, all_rows(), split);
  }

  // Output pixels [first, first + count) of a run of images as pieces; `base` is the first channel
  // of the group in the first image. Returns their number; border tells whether a window of
  // theirs touches padding.
  int pieces(const float* base, std::int64_t first, int count, TapPiece* to, bool& border) const;

  // Whether each term of the sum of these pixels is inside the input: bit i of mask[k] for pixel
  // first + i.
  void masks(std::int64_t first, int count, std::uint16_t* mask) const;

 private:
  void set_columns();
};

}  // namespace etalon
