// The operands of kernels/gemm/residue_tile.h as strips of 16 rows.
#pragma once

#include "engine/core/cpu.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/residue_tile.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

// Tiles lie [plane][strip][step].
struct ResidueOperand {
  AlignedBuffer planes, norms;  // bytes; ResidueNorms of each strip
  std::int64_t k = 0, strips = 0;
  std::int64_t steps() const { return (k + kResidueTileStep - 1) / kResidueTileStep; }
  std::int64_t plane() const { return strips * steps() * kResidueTileBytes; }
  const std::uint8_t* strip(std::int64_t s) const {
    return planes.data<std::uint8_t>() + s * steps() * kResidueTileBytes;
  }
  const ResidueNorms* norms_of(std::int64_t s) const { return norms.data<ResidueNorms>() + s; }
};

// How strips of rows by strips of columns are cut into blocks. From the third cache a core gets 9
// bytes a cycle, and products use up 13 * (64 / rows + 64 / columns) of their panels, of as many
// rows and columns: so what is read again should be in the second one, of 2 MiB, beside the sums
// (11 KiB a tile). Either that is b's panel, of all planes, while rows pass by; or, where k is
// long, both panels of one plane, and the sums are as many as may be. `overlaps`: rows of a are
// windows, which share their bytes.
inline constexpr double kThirdCacheBytes = 9;  // a cycle
// Residues are taken where their model says that they need less than this much of the other pass's
// time: what the tile unit does in a cycle varies with its company (README.md).
inline constexpr double kResiduesGain = 0.8;
struct ResidueBlocks {
  std::int64_t rows = 2, columns = 2, tall = 0, wide = 0;
  ResidueBlocks(std::int64_t row_strips, std::int64_t column_strips, std::int64_t steps,
                bool overlaps, int threads);
  // About what multiplying and rounding takes on one thread.
  double cycles() const;

 private:
  std::int64_t row_strips_, column_strips_, steps_;
  bool overlaps_, panel_stays_ = false;
};

// nullptr where the instruction set has no int8 tiles.
const ResidueSet* residue_set(Isa isa);

// All strips of an operand.
void pack_residues(const ResidueSet& set, const MatrixView& from, std::int64_t rows, std::int64_t k,
                   bool right, int threads, ResidueOperand& to);

// Rows [first, first + 16 strips) of `from` contiguous in k: row r at to + r * (k rounded up to
// 16).
void turn_rows(const ResidueSet& set, const MatrixView& from, std::int64_t first, std::int64_t rows,
               std::int64_t k, int strips, float* to);

}  // namespace etalon
