#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// Vendor rows; compiled where oneDNN was found.
std::span<const KernelRow> onednn_softmax_rows();

}  // namespace etalon
