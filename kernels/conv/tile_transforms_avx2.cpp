// Transforms of tiles (tile_transforms.h) for avx2.
#include "kernels/conv/tile_transforms_inl.h"
#include "kernels/simd/avx2.h"

namespace etalon::avx2 {

const TileTransforms& transforms() {
  static const TileTransforms t = make_transforms<F32, F64>();
  return t;
}

}  // namespace etalon::avx2
