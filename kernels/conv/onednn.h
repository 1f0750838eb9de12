#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// Vendor rows, one an algorithm; compiled where oneDNN was found.
std::span<const KernelRow> onednn_conv_rows();

}  // namespace etalon
