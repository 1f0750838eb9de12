// Images that are read at the points of a grid, by the gathers that this is.
//
// Coordinates run from -1 to 1, x (the innermost axis) first; `corners` says that these are the
// centres of the outermost pixels, else their edges. Outside lie zeros, the border's pixels, or the
// image reflected to and fro. `cubic` is Keys' kernel with a = -3/4, each of whose taps is brought
// inside by itself; `nearest` rounds to even.
#pragma once

#include <string>

#include "engine/graph/builder.h"

namespace etalon {

struct GridSampling {
  enum class Mode { linear, nearest, cubic };
  enum class Outside { zeros, border, reflection };
  Mode mode = Mode::linear;
  Outside outside = Outside::zeros;
  bool corners = false;
};

// image [N,C,..], grid [N,..,axes]: [N,C, the extents of the grid between]. A bad-input Error where
// the extents of the image or of the grid but the batch are not known, or do not fit.
ValueId grid_sample(GraphBuilder& g, const std::string& name, ValueId image, ValueId grid,
                    const GridSampling& how);

// [N,2,3] to [N,H,W,2], or [N,3,4] to [N,D,H,W,3]: the points that an affine map sends those of an
// even grid of `extents` to.
ValueId affine_grid(GraphBuilder& g, const std::string& name, ValueId theta, const Ints& extents,
                    bool corners);

}  // namespace etalon
