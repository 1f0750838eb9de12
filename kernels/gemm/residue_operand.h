// The operands of kernels/gemm/residue_tile.h as strips of 16 rows.
#pragma once

#include "engine/core/cpu.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/residue_tile.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

constexpr std::int64_t residue_steps(std::int64_t k) {
  return (k + kResidueTileStep - 1) / kResidueTileStep;
}
// Of one plane of a strip.
constexpr std::int64_t residue_strip_bytes(std::int64_t k) {
  return residue_steps(k) * kResidueTileBytes;
}

// Tiles lie [plane][strip][step].
struct ResidueOperand {
  AlignedBuffer planes, norms;  // bytes; ResidueNorms of each strip
  std::int64_t k = 0, strips = 0;
  std::int64_t plane() const { return strips * residue_strip_bytes(k); }
  const std::uint8_t* strip(std::int64_t s) const {
    return planes.data<std::uint8_t>() + s * residue_strip_bytes(k);
  }
  const ResidueNorms* norms_of(std::int64_t s) const { return norms.data<ResidueNorms>() + s; }
};

// Models of time count cycles of one thread, about: a product of two tiles (16 where nobody else
// uses the unit, 40 and more where others do, README.md), what storing the sums of a tile in one
// plane takes, joining and rounding an output, cutting an element; and the bytes that a core gets
// from the third cache in a cycle.
inline constexpr double kResidueProductCycles = 24, kResidueStoreCycles = 30,
                        kResidueJoinCycles = 3, kResidueCutCycles = 3, kThirdCacheBytes = 9;
// Residues are taken where they need less than this much of the other pass's time.
inline constexpr double kResiduesGain = 0.9;

// nullptr where the instruction set has no int8 tiles.
const ResidueSet* residue_set(Isa isa);

// Strips [first, first + count) of an operand, on one thread: plane i of the first at to + i *
// plane.
void pack_residue_strips(const ResidueSet& set, const MatrixView& from, std::int64_t rows,
                         std::int64_t k, bool right, std::int64_t first, std::int64_t count,
                         std::uint8_t* to, std::int64_t plane, ResidueNorms* norms);
// All strips.
void pack_residues(const ResidueSet& set, const MatrixView& from, std::int64_t rows, std::int64_t k,
                   bool right, int threads, ResidueOperand& to);

// Rows [first, first + 16 strips) of `from` contiguous in k: row r at to + r * (k rounded up to
// 16).
void turn_rows(const ResidueSet& set, const MatrixView& from, std::int64_t first, std::int64_t rows,
               std::int64_t k, int strips, float* to);

}  // namespace etalon
