// The tile set of each instruction set; call one only where the processor has it.
#pragma once

#include "kernels/gemm/tile.h"

namespace etalon::avx512 {
const TileSet& tiles_f32();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const TileSet& tiles_f32();
}  // namespace etalon::avx2
