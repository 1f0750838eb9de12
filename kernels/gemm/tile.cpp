#include "kernels/gemm/tile.h"

#include "kernels/gemm/tile_sets.h"

namespace etalon {

const TileSet* tile_set_f32([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::tiles_f32();
  if (isa == Isa::avx2) return &avx2::tiles_f32();
#endif
  return nullptr;
}

}  // namespace etalon
