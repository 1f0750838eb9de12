// Tiles of kernels/gemm/tile.h for avx512.
#include "kernels/simd/avx512.h"

#include "kernels/gemm/tile_inl.h"
#include "kernels/gemm/tile_sets.h"

namespace etalon::avx512 {

const TileSet<float>& tiles_f32() {
  static const TileSet<float> set = simd::make_tile_set<F32>(Isa::avx512);
  return set;
}
const TileSet<double>& tiles_f64() {
  static const TileSet<double> set = simd::make_tile_set<F64>(Isa::avx512);
  return set;
}

}  // namespace etalon::avx512
