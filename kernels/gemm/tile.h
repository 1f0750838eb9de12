// The register tile that every fast matrix product and convolution here is made of.
//
// A tile is R rows by W vectors of outputs. Both operands are packed: the broadcast side as strips
// a[k][step] (R of them used), the vector side as strips b[k][lanes]. One accumulator per output
// lives in a register and walks k upwards; it never meets another accumulator, so each output is
// the one fma chain of contract seq whatever R, W, the vector length or the blocking of k: a block
// of k that is not the first takes its accumulators from c, where the block before left them as
// the f32 they were.
#pragma once

#include <array>
#include <cstdint>

#include "engine/core/cpu.h"

namespace etalon {

// Vectors of a convolution's inputs that a tile gathers on its way: up to kGatherRuns runs of
// neighbours each, lane i of run r at source[w][r][offset[k] + i]. They are left packed at `to`, so
// that the tiles to come find them there: loads and stores hide behind the fma of the first tile.
inline constexpr int kGatherVectors = 2, kGatherRuns = 2;
// Tiles of up to kReadingRows rows read more vectors so, and leave nothing: where all channels are
// one strip, nobody comes after them.
inline constexpr int kReadingRows = 4;
inline constexpr int kMaxTileVectors = 4, kApartVectors = 2;
inline constexpr int kUnaskedRows = 3;
// Steps of k from the asking for a vector to its use: 16 x 14 cycles cover the second cache.
inline constexpr std::int64_t kAheadSteps = 16;
struct TileGather {
  const float* source[kMaxTileVectors][kGatherRuns];
  std::uint16_t lanes[kMaxTileVectors][kGatherRuns];
  const std::int64_t* offset = nullptr;  // kAheadSteps more than k of them
  float* to = nullptr;                   // strip w at to + w * b_strip
};

// What follows a tile's sums before they are stored (UsualSteps of engine/backend/pointwise.h), for
// tiles that are plain, that gather, or whose rows are apart.
struct TileEnding {
  // By row; by lane, W * lanes values, where rows are apart. nullptr: no affine.
  const float *mean = nullptr, *factor = nullptr, *bias = nullptr;
  bool fused = true;
  const float* other = nullptr;  // laid out as c, which it may be; nullptr: no addition
  bool relu = false;
};

// What a form of tiles is not asked for, as said behind a field, it does not look at.
struct TileCall {
  std::int64_t k = 0;
  const float* a = nullptr;  // a[k * a_step + row]; rows apart: a[k + row * a_row]
  std::int64_t a_step = 0;
  std::int64_t a_row = 0;
  const float* b = nullptr;  // strip w at b + w * b_strip: b[k * b_step + lane]
  std::int64_t b_strip = 0;
  std::int64_t b_step = 0;  // lanes where packed; a row of the matrix itself where it is not
  float* c = nullptr;       // row r, vector w at c + r * c_row + w * lanes
  std::int64_t c_row = 0;
  int last_lanes = 0;  // lanes of the last vector that are stored
  // Accumulators start from c, else from +0. Not masked tiles.
  bool resume = false;
  // Added last, one rounding; per row. Not where rows are apart, nor those that ask for nothing.
  const float* row_bias = nullptr;
  // The same per lane: W * lanes values. Not gathering and reading tiles.
  const float* lane_bias = nullptr;
  // Masked tiles only: bit `lane` of mask[w * mask_strip + k] says whether the term counts.
  const std::uint16_t* mask = nullptr;
  std::int64_t mask_strip = 0;
  // Plain tiles, and of vectors of a whole line those of rows apart, ask for a cache line a step of
  // k on behalf of a tile to come that will want them.
  const float* next = nullptr;
  std::int64_t next_step = 0;          // elements of these, or 0 where nothing is wanted
  const TileGather* gather = nullptr;  // gathering and reading tiles only, in the place of b
  // Copying tiles only: strip w of b is left at copy + w * copy_strip, [k][lanes].
  float* copy = nullptr;
  std::int64_t copy_strip = 0;
  // Where given, and no zero is reported, sums are stored after it.
  const TileEnding* ending = nullptr;
  bool report_zero = false;  // plain, gathering and reading tiles
};

// Returns, with report_zero, a bit for each row in which some stored sum (before the bias) is zero.
using TileFn = std::uint32_t (*)(const TileCall&);

// Copies f32 operands into strips, of f64 for exact_product.h. `count` rows (at most lanes), the
// rest up to `fill` zeros.
//   contiguous: dst[k * step + i] = src[k * stride + i]
//   strided:    dst[k * step + i] = src[i * stride + k]
template <class T>
using PackFn = void (*)(const float* src, std::int64_t stride, int count, int fill, std::int64_t k,
                        T* dst, std::int64_t step);

// Gathers the taps of a convolution. A vector of output pixels is up to kMaxPieces runs of
// neighbours; run p fills lanes [lane, lane + size) from source[p][offset[k] + i].
struct TapPiece {
  const float* source;
  int lane;
  int size;
};
inline constexpr int kMaxPieces = 16;
// dst[k * step + lane] for lanes [0, fill); lanes of no run are zero. dst must have room for a
// whole vector behind the last step.
using TapFn = void (*)(const TapPiece* pieces, int count, const std::int64_t* offset,
                       std::int64_t k, int fill, float* dst, std::int64_t step);

// The same for whole vectors side by side, `strips` of them: each step reads them together, so that
// memory is walked in runs of several cache lines. Strip s is [k][lanes] at dst + s * dst_strip.
//   contiguous: from src + k * stride + s * lanes
//   taps:       from sources[s] + offset[k]
using PackWideFn = void (*)(const float* src, std::int64_t stride, int strips, std::int64_t k,
                            float* dst, std::int64_t dst_strip);
using TapWideFn = void (*)(const float* const* sources, int strips, const std::int64_t* offset,
                           std::int64_t k, float* dst, std::int64_t dst_strip);
inline constexpr int kWideStrips = 8;

inline constexpr int kMaxTileRows = 14;

struct TileSet {
  Isa isa = Isa::sse2;
  int lanes = 0;
  int terms = 1;  // of k that a packed element holds: two bf16, or one f32 (pairs.h)
  int rows = 0;   // rows of the tile with 2 vectors
  std::array<int, kMaxTileVectors + 1> max_rows{};  // by number of vectors
  std::array<std::array<TileFn, kMaxTileRows + 1>, kMaxTileVectors + 1> plain{};  // [w][r]
  // One vector, or one row of up to three.
  std::array<std::array<TileFn, kMaxTileRows + 1>, 4> masked{};
  // The broadcast side not packed: each of its rows, two or more, is contiguous in k.
  // w <= kApartVectors.
  std::array<std::array<TileFn, kMaxTileRows + 1>, kApartVectors + 1> rows_apart{};
  // The same where b lies as in its matrix and is left packed: loads and stores of the copy hide
  // behind the fma. Of whole vectors, and of rows for which there is no widest tile; else nullptr.
  std::array<std::array<TileFn, kMaxTileRows + 1>, kApartVectors + 1> copying{};
  // [runs][w][r]; with one run a vector, all its lanes. Of rows for which there is no wider tile:
  // those that have one are packed.
  std::array<std::array<std::array<TileFn, kMaxTileRows + 1>, kGatherVectors + 1>, kGatherRuns + 1>
      gathering{};
  // [runs][w][r] likewise. nullptr where masks would take registers.
  std::array<std::array<std::array<TileFn, kReadingRows + 1>, kMaxTileVectors + 1>, kGatherRuns + 1>
      reading{};
  PackFn<float> pack_contiguous = nullptr;
  PackFn<float> pack_strided = nullptr;
  TapFn pack_taps = nullptr;
  PackWideFn pack_wide = nullptr;  // at most kWideStrips strips
  TapWideFn pack_taps_wide = nullptr;
  // y = alpha * y, rounded, then fma(beta, c[i * c_step], y) where c is not nullptr.
  void (*scale_add)(float* y, std::int64_t count, float alpha, float beta, const float* c,
                    std::int64_t c_step) = nullptr;
  // y[lane * y_stride + row] = c[row * c_row + lane] for `rows` rows (at most lanes) and `count`
  // lanes: rows of a tile become columns. Whole vectors of c are read, whatever `count` is.
  void (*store_transposed)(const float* c, std::int64_t c_row, int rows, int count, float* y,
                           std::int64_t y_stride) = nullptr;
  // Few rows that ask for no line ahead.
  std::array<std::array<TileFn, kUnaskedRows + 1>, kMaxTileVectors + 1> unasked{};
};

// nullptr where the set is not compiled in (another processor).
const TileSet* tile_set_f32(Isa isa);

}  // namespace etalon
