// Residues (kernels/gemm/residue_tile.h) with the tile unit in software: all of them but the tile
// instructions, for processors with AVX-512 VBMI, VNNI and IFMA.
#pragma once

#include "kernels/gemm/residue_tile.h"

namespace etalon::test {

const ResidueSet& software_residues();

}  // namespace etalon::test
