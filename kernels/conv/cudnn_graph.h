#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/ops/conv.h"
#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// cuDNN's engines for a forward convolution, each two rows: one that takes the engine where it
// keeps f32 products, and one, named tensor_core, where it does not. Vendor rows: bits reported,
// never promised. Seen on hardware: never.
std::span<const DeviceRow> cudnn_graph_rows();

// A convolution as the library's descriptors have it: two spatial axes where the op has one.
struct CudnnConvShape {
  std::vector<std::int64_t> x, w, y, strides, dilations, before, behind;
  auto operator<=>(const CudnnConvShape&) const = default;
};
CudnnConvShape cudnn_conv_shape(const ConvGeometry& g);

// An engine's notes on its numbers, as the library numbers them, and what they are called.
bool keeps_f32_products(std::span<const int> notes);
std::string note_text(std::span<const int> notes);

}  // namespace etalon::cuda
