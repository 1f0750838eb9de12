// Transforms of tiles (tile_transforms.h) for avx512.
#include "kernels/conv/tile_transforms_inl.h"
#include "kernels/simd/avx512.h"

namespace etalon::avx512 {

const TileTransforms& transforms() {
  static const TileTransforms t = make_transforms<F32, F64>();
  return t;
}

}  // namespace etalon::avx512
