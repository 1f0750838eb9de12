// Tiles of kernels/gemm/tile.h for avx512.
#include "kernels/simd/avx512.h"

#include "kernels/gemm/tile_inl.h"
#include "kernels/gemm/tile_sets.h"

namespace etalon::avx512 {

const TileSet& tiles_f32() {
  static const TileSet set = simd::make_tile_set<F32>(Isa::avx512);
  return set;
}

}  // namespace etalon::avx512
