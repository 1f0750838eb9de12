// Tiles of kernels/gemm/tile.h for avx2.
#include "kernels/simd/avx2.h"

#include "kernels/gemm/tile_inl.h"
#include "kernels/gemm/tile_sets.h"

namespace etalon::avx2 {

const TileSet& tiles_f32() {
  static const TileSet set = simd::make_tile_set<F32>(Isa::avx2);
  return set;
}

}  // namespace etalon::avx2
