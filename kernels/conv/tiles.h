// How an output is cut into the tiles of an algorithm, and when it can be: shared by Winograd and
// FFT.
//
// Along an axis of the kernel's full extent a tile makes `step` outputs from `size` inputs; along
// an axis on which the kernel has extent 1 it makes one from one. Tiles are numbered row-major over
// [image, tile row, tile column]; a tile at the end may make outputs that do not exist. Inputs
// outside the image are zeros.
#pragma once

#include <string>

#include "engine/backend/kernel.h"
#include "engine/numerics/algorithm.h"
#include "engine/ops/conv.h"

namespace etalon {

struct TileAxis {
  std::int64_t size = 1, step = 1, count = 1;
};

struct ConvTiles {
  ConvGeometry g;
  TileAxis y, x;
  ETALON_HD std::int64_t per_image() const { return y.count * x.count; }
  ETALON_HD std::int64_t count() const { return g.batch * per_image(); }
  ETALON_HD const WindowAxis& axis_y() const { return g.window.axes[1]; }
  ETALON_HD const WindowAxis& axis_x() const { return g.window.axes[2]; }
};

// Why the algorithm cannot compute this problem under this contract, naming the rule.
Refusal refuse_tiles(const Problem& problem, const Algorithm& algorithm);
// After refuse_tiles had nothing to say.
ConvTiles conv_tiles(const ConvGeometry& geometry, const Algorithm& algorithm);

}  // namespace etalon
