#pragma once

#include <span>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// cuDNN's forward convolutions, each algorithm it offers a row of its own, without TF32; and the
// two GEMM forms with it. Vendor rows: bits reported, never promised. Seen on hardware: never.
std::span<const DeviceRow> cudnn_conv_rows();

}  // namespace etalon::cuda
