#include "kernels/gemm/tile.h"

#include "kernels/gemm/tile_sets.h"

namespace etalon {

const TileSet<float>* tile_set_f32([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::tiles_f32();
  if (isa == Isa::avx2) return &avx2::tiles_f32();
#endif
  return nullptr;
}

const TileSet<double>* tile_set_f64([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return &avx512::tiles_f64();
  if (isa == Isa::avx2) return &avx2::tiles_f64();
#endif
  return nullptr;
}

}  // namespace etalon
