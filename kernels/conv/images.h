// conv, f32, contract seq, walk crs: images side by side, for small ones with much padding.
//
// Of a window of 5x5 over images of 4x4 half of the taps lie in the padding, over 2x2 five of six.
// Which they are depends on the output's place in its image alone. So the outputs of one place in
// up to 12 images (6 on AVX2) are a tile, whose terms are the taps of that place that are inside:
// what the contract leaves out is not walked, and nothing is computed again. Their inputs are
// copied so that those of the images under one tap are neighbours, which the tiles of
// in_place_tile.h broadcast; channels are in lanes, two vectors of them.
//
// Loops: panel of channels, strip of images, place, term.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/conv/in_place.h"
#include "kernels/conv/in_place_tile.h"
#include "kernels/gemm/tile.h"

namespace etalon {

class ImagesConv {
 public:
  ImagesConv(const ConvGeometry& geometry, const TileSet& set);

  // Where this way is the faster one.
  bool worthwhile() const { return worthwhile_; }

  // What the other way is given; padding is not walked, so weights need not be finite.
  using Call = InPlaceConv::Call;
  void run(const Call& call) const;

 private:
  struct Item;
  void copy_strip(const float* x, int images, float* to) const;
  void run_item(const Call& call, const Item& item) const;

  ConvGeometry g_;
  const TileSet& set_;
  const InPlaceTiles* tiles_ = nullptr;
  bool worthwhile_ = false;
  int most_ = 0;                              // images of a tile
  std::vector<std::vector<TapGroup>> terms_;  // by place; each with kGroupsAhead more
};

}  // namespace etalon
