// What algorithms_fast.cpp goes through: a convolution prepared for Winograd's algorithm or for
// fft, and the passes between an image and the spectra of its tiles.
#pragma once

#include <memory>

#include "engine/backend/kernel.h"
#include "kernels/conv/algorithms.h"
#include "kernels/conv/tile_transforms.h"
#include "kernels/conv/tiles.h"
#include "kernels/conv/twiddles.h"
#include "kernels/gemm/scratch.h"
#include "kernels/gemm/tile.h"

namespace etalon {

struct PreparedTiles {
  ConvTiles t;
  Algorithm algorithm;
  bool is_fft = false, packed = false;
  std::int64_t positions = 0, k = 0, rows = 0;  // of a group; rows and k count re and im apart
  std::int64_t run = 0;                         // terms of a chain, 0: all of k
  Coefficients<float> a_t, b_t;
  Coefficients<double> a_t_wide, b_t_wide;
  std::shared_ptr<const Twiddles> roots;
  // How the padded copy of a channel is laid out: `phases` runs of columns equal by step.
  std::int64_t phases = 1, phase_stride = 0, row = 0, plane = 0;
  AlignedBuffer weights;  // [group][position][strip][k][height]
};

// algorithm_prepare.cpp: what depends on shapes and contract; the spectra of the weights.
std::shared_ptr<PreparedTiles> prepare_tiles(const Problem& problem);
void pack_tile_weights(PreparedTiles& p, const TileTransforms& set, int tile_rows, const float* w,
                       int threads);

// A run of images computed together, and the tiles [first, first + count) of them.
struct TileChunk {
  const TileTransforms& set;
  const TileSet& gemm;
  const PreparedTiles& p;
  const float* x;  // padded copies: [image][channel][plane]
  const float* bias;
  float* y;  // of the first image
  std::int64_t tiles;
};

struct TileBlock {
  std::int64_t first = 0, count = 0, padded = 0;  // tiles; padded to whole vectors
  float* v = nullptr;
  float* s = nullptr;
  std::int64_t v_position = 0, s_position = 0;
};

// algorithm_tiles.cpp
// One channel with its padding as zeros, columns of equal remainder by the step together.
void copy_plane(const PreparedTiles& p, const float* from, float* to);
// V of one channel of a group; the outputs of one channel from S.
void input_channel(const TileChunk& c, const TileBlock& b, std::int64_t group,
                   std::int64_t channel);
void output_channel(const TileChunk& c, const TileBlock& b, std::int64_t group,
                    std::int64_t channel);

}  // namespace etalon
