// conv, f32, contract seq, walk crs: channels in lanes, inputs read where they lie in their rows.
//
// A tile is up to 12 neighbouring outputs of a row by two vectors of channels; on AVX2 up to 6, or
// up to 4 by three vectors where rows are so short that two would leave accumulators idle. Under
// one term its inputs stand at a fixed distance from each other (the stride), whatever term it is,
// so they are broadcast from the image's own rows: nothing is packed tap by tap, and a stride costs
// nothing. Rows of 13 and 14 outputs are one tile for each vector of AVX-512, or two tiles
// (in_place.cpp).
//
// Padding above and below a row of outputs leaves out whole rows of taps, the same for all its
// pixels: those terms are not walked, as the contract says. Rows are copied first, some at a time
// so that they stay in cache, with zeros for the padding to their left and right. Windows of three
// columns with one column of padding, and of five with two, leave it out too; elsewhere, where a
// zero could change a sum (plan.h), the output is computed again.
//
// Where channels are the last axis the copy turns rows of pixels into rows of channels, so that the
// tiles read what they always do, and a tile's sums are runs of y as it leaves them: nothing is
// turned behind it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/backend/kernel.h"
#include "engine/ops/conv.h"
#include "kernels/conv/in_place_tile.h"
#include "kernels/gemm/tile.h"

namespace etalon {

class InPlaceConv {
 public:
  // channels_last: x is [N,H,W,C] and y [N,H,W,O].
  InPlaceConv(const ConvGeometry& geometry, const TileSet& set, bool channels_last = false);

  // Where this way is the faster one.
  bool worthwhile() const { return worthwhile_; }

  // `weights`: each group's channels as vectors [strip][k][lanes] (pack_vector). x and y begin at
  // the call's first image.
  struct Call {
    const float* x = nullptr;
    const float* weights = nullptr;
    bool finite_weights = true;
    const float* bias = nullptr;
    float* y = nullptr;
    int threads = 1;
    const KernelCall* kernel = nullptr;
  };
  void run(const Call& call) const;

 private:
  struct Item;
  // Rows of taps that lie inside the input, and the terms they give.
  struct Terms {
    std::int64_t begin, end;
    std::vector<TapGroup> groups;  // and kGroupsAhead more
  };

  void run_item(const Call& call, const Item& item) const;
  bool leave_out(std::int64_t column, std::int64_t height, InPlaceTileCall& t) const;
  void add_rows(const Call& call, const Item& item, std::int64_t first, std::int64_t last,
                float* sums, std::int64_t sums_row) const;
  void ask_panel(const Item& item, std::int64_t tile, InPlaceTileCall& t) const;
  void ask_block(const float* panel, const float* then, std::int64_t block, std::int64_t tile,
                 int vectors, InPlaceTileCall& t) const;
  void run_item_last(const Call& call, const Item& item) const;
  std::int64_t copy_rows(const float* x, std::int64_t first_row, std::int64_t last_row,
                         float* to) const;
  void turn_row(const float* from, std::int64_t count, float* to) const;
  std::int64_t store_rows(std::int64_t rows) const;
  std::int64_t even_rows(std::int64_t threads) const;
  void repair(const Call& call, const Item& item, std::int64_t pixel, float* to) const;
  std::int64_t add_terms(std::int64_t row);

  ConvGeometry g_;
  const TileSet& set_;
  bool channels_last_ = false;
  const InPlaceTiles* tiles_ = nullptr;
  bool worthwhile_ = false;
  bool window_ = false;  // tiles may leave padding at the ends of a row out
  bool padded_ = false;  // some rows of pixels begin or end in padding
  bool single_ = false;  // a tile has one vector
  int panel_ = 0;        // vectors of channels that are computed together
  int tile_rows_ = 0;
  std::int64_t blocks_ = 1;      // of channels of the input
  std::int64_t chunk_rows_ = 0;  // rows of outputs whose inputs are copied at a time
  std::int64_t row_stride_ = 0, channel_stride_ = 0;  // of that copy
  std::vector<Terms> terms_;
  std::vector<std::int64_t> terms_of_;  // by row of outputs: index of its terms
};

}  // namespace etalon
