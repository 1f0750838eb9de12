// Sums through residues (residues.h) on tiles of int8: what a block of outputs is, and the
// functions of an instruction set that cut its operands, multiply and round it.
//
// Residues here are bytes, any that are right modulo m (residue_cut_amx.h), sums unsigned: 255^2 K
// < 2^32 while K, in whole steps of 64, is at most 66048. A sum needs no reduction modulo m then;
// residue_join_inl.h makes v / M of the eleven of them.
#pragma once

#include <cstdint>

#include "kernels/gemm/residues.h"

namespace etalon {

inline constexpr int kResiduePlanes = kResidues;
inline constexpr std::int64_t kResidueTileMostK = 66048;
inline constexpr int kResidueTileRows = 16, kResidueTileStep = 64;
inline constexpr std::int64_t kResidueTileBytes = 1024, kResidueTileSums = 256;

// What the join is off by at most, in units of 2^-64 M, and what that adds to the rest of a row, in
// its units: for a unit is at most 2^-42 of the norm, so that with half of it on either side
// a.rest b.norm + a.norm b.rest grows by what the join of the two may be off.
inline constexpr double kResidueJoinError = 5610 + 0x1p16 + 0x1p8,
                        kResidueJoinRest = 1.01 * kResidueJoinError * kResidueForm.scale * 0x1p-43;

// Of 16 rows of an operand, in the numbers of x: residue_norm's, rests with the join's.
struct alignas(64) ResidueNorms {
  double unit[kResidueTileRows], norm[kResidueTileRows], rest[kResidueTileRows];
};

// Rows [first, first + count) of a tile are neighbours in the output, the first of them at `at`.
struct ResidueRun {
  int first = 0, count = 0;
  std::int64_t at = 0;
};
// At most 64 channels, `stride` apart, by 16 pixels.
struct ResidueTurn {
  const float* from = nullptr;
  std::int64_t stride = 0;
  int channels = 0, pixels = 0;
};
// Where sums and bounds themselves are wanted: [rows][16] each, |real - sum| <= bound.
struct ResidueSums {
  alignas(64) double sums[kResidueTileRows * kResidueTileRows];
  alignas(64) double bounds[kResidueTileRows * kResidueTileRows];
};

// Sixteen rows of a: the tile of plane i and step t lies at
// a + i * a_plane + a_steps[t] of its block, rows a_row apart.
struct ResidueRows {
  const std::uint8_t* a = nullptr;
  const ResidueNorms* norms = nullptr;
  int rows = kResidueTileRows;
  // Where they lie in y: at `at`, or as runs; rows of no run are nobody's.
  std::int64_t at = 0;
  const ResidueRun* runs = nullptr;
  int run_count = 0;
  std::int64_t added = 0;
};
// Sixteen columns of b: the tile of plane i and step t lies at b + i * b_plane + 1024 t, as the
// tile instruction wants its right operand: [k / 4][column][4].
struct ResidueColumns {
  const std::uint8_t* b = nullptr;
  const ResidueNorms* norms = nullptr;
  int columns = kResidueTileRows;
  std::int64_t at = 0, added = 0;
};

// Most strips of rows and of columns of a block, and most tiles.
inline constexpr int kResidueBlockRows = 16, kResidueBlockColumns = 16;
inline constexpr std::int64_t kResidueBlockTiles = 64;
struct ResidueBlock {
  ResidueRows rows[kResidueBlockRows];
  ResidueColumns columns[kResidueBlockColumns];
  int row_strips = 0, column_strips = 0;
  const std::int64_t* a_steps = nullptr;
  std::int64_t a_plane = 0, a_row = kResidueTileStep, b_plane = 0, steps = 0;
  // Output (r, i) of a tile is scale * sum + added[rows.added + columns.added + r * added_row + i],
  // or + row_added[rows.added + r], rounded, at y[rows.at + columns.at + r * y_row + i]; with runs,
  // at y[columns.at + i * y_row + run.at + r - run.first]. added is read in whole vectors.
  double scale = 1;
  const double* row_added = nullptr;
  const double* added = nullptr;
  std::int64_t added_row = 0;
  float* y = nullptr;
  std::int64_t y_row = 0;
  // Takes the undecided outputs of tile (s, c): bit i of undecided[r].
  void* caller = nullptr;
  void (*open)(void* caller, const ResidueBlock&, int s, int c,
               const std::uint16_t* undecided) = nullptr;
  // Instead of all rounding, where sums and bounds themselves are wanted.
  void (*wide)(void* caller, const ResidueBlock&, int s, int c, const ResidueSums&) = nullptr;
};
// Of int32, that the sums of a block need.
inline constexpr std::int64_t kResidueBlockSums =
    kResidueBlockTiles * kResiduePlanes * kResidueTileSums;

struct ResidueSet {
  // to[i * to_stride + j] = from[j * from_stride + i] for 16 i (lanes of them there, the others 0)
  // and k values of j, rounded up to 16 of them in `to`.
  void (*transpose)(const float* from, std::int64_t from_stride, int lanes, std::int64_t k,
                    float* to, std::int64_t to_stride) = nullptr;
  // Unit, norms and bytes of up to 16 rows of k values, row r at rows[r] (nullptr: zeros): step t
  // of plane i at to + i * plane + 1024 t.
  void (*pack)(const float* const* rows, std::int64_t k, bool right, std::uint8_t* to,
               std::int64_t plane, ResidueNorms& norms) = nullptr;
  // As pack with right, of up to 16 columns side by side: value (k, c) at from[k * stride + c].
  void (*pack_across)(const float* from, std::int64_t stride, int columns, std::int64_t k,
                      std::uint8_t* to, std::int64_t plane, ResidueNorms& norms) = nullptr;
  // Bytes of a block of an image in units of `unit`, as a left operand's: plane p of value (c, i),
  // from[c * stride + i], at to[p * plane + i * pitch + c]. Returns the sum of the squares of what
  // rounding left, in units of `unit`.
  double (*cut_turned)(const ResidueTurn& block, double unit, std::uint8_t* to, std::int64_t pitch,
                       std::int64_t plane) = nullptr;
  // One row of tiles from planes of such bytes: runs of `bytes` each, run i at
  // from[p * plane + offset[i]], one after the other along k, to to[p * to_plane].
  void (*gather)(const std::uint8_t* from, std::int64_t plane, const std::int64_t* offset, int runs,
                 std::int64_t bytes, std::uint8_t* to, std::int64_t to_plane) = nullptr;
  // sums[i] += the squares of x[i], over `channels` rows `stride` apart.
  void (*add_squares)(const float* x, std::int64_t stride, std::int64_t channels,
                      std::int64_t count, double* sums) = nullptr;
  // Around the products of one thread.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
  // Multiplies and rounds a block.
  void (*run)(const ResidueBlock&, std::int32_t* sums) = nullptr;
};

// The processor's own.
namespace amx {
const ResidueSet& residues();
}
}  // namespace etalon
