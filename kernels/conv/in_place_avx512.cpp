// Tiles of in_place_tile.h for avx512.
#include "kernels/conv/in_place_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

const InPlaceTiles& in_place_tiles() {
  static const InPlaceTiles tiles = simd::in_place_tiles_of<F32, 6, 14, 12, 0>();
  return tiles;
}

}  // namespace etalon::avx512
