#pragma once

#include <span>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// cuDNN's pools, softmax, local response and batch normalisation, activations. Vendor rows: bits
// reported, never promised. Seen on hardware: never.
std::span<const DeviceRow> cudnn_layer_rows();

}  // namespace etalon::cuda
