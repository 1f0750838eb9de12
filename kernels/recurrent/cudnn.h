#pragma once

#include <span>

#include "kernels/backends/cuda/rows.h"

namespace etalon::cuda {

// cuDNN's lstm, gru and rnn, a row for each algorithm, without TF32; and the standard one with it.
// Vendor rows: bits reported, never promised. Seen on hardware: never.
std::span<const DeviceRow> cudnn_recurrent_rows();

}  // namespace etalon::cuda
