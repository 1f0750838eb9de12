#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> detection_rows();
std::span<const KernelRow> selection_rows();

}  // namespace etalon
