// kernels/gemm/residue_tile.h on the processor's tile unit.
#include "kernels/gemm/residue_tile_unit.h"
#include "kernels/gemm/residues_inl.h"

namespace etalon::amx {

const ResidueSet& residues() { return residue_set_of<TileUnit>(); }

}  // namespace etalon::amx
