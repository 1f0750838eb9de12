// The tile set of each instruction set; call one only where the processor has it.
#pragma once

#include "kernels/gemm/tile.h"

namespace etalon::avx512 {
const TileSet<float>& tiles_f32();
const TileSet<double>& tiles_f64();
}  // namespace etalon::avx512
namespace etalon::avx2 {
const TileSet<float>& tiles_f32();
const TileSet<double>& tiles_f64();
}  // namespace etalon::avx2
