// What convolution and its transpose share about shapes: the output [N, M, spatial...] of a window,
// and the bias [M].
#pragma once

#include "engine/ops/op.h"
#include "engine/ops/window.h"

namespace etalon {

inline Shape window_output_shape(std::int64_t batch, std::int64_t channels, const Window& window) {
  std::array<std::int64_t, kMaxRank> dims{batch, channels};
  for (int i = 0; i < window.spatial; ++i)
    dims[static_cast<std::size_t>(2 + i)] =
        window.axes[static_cast<std::size_t>(kMaxSpatial - window.spatial + i)].out;
  return Shape(
      std::span<const std::int64_t>(dims.data(), static_cast<std::size_t>(2 + window.spatial)));
}

// Output type of x [N,...] and w at inputs 0 and 1 with a bias at input 2, which may be absent.
template <class Geometry>
std::vector<TensorType> conv_output_type(const Geometry& g, const InferInputs& in) {
  if (in.has(2) && in.shape(2) != Shape{g.out_channels})
    throw bad_input("bias must be [{}], got {}", g.out_channels, to_string(in.shape(2)));
  return {{in.dtype(0), g.output_shape()}};
}

}  // namespace etalon
