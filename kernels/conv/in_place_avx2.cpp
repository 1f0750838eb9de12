// Tiles of in_place_tile.h for avx2.
#include "kernels/conv/in_place_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

const InPlaceTiles& in_place_tiles() {
  static const InPlaceTiles tiles = simd::in_place_tiles_of<F32, 3, 6, 6, 4>();
  return tiles;
}

}  // namespace etalon::avx2
