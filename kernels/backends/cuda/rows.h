#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon::cuda {

// The definitions that run on a GPU today. Seen on hardware: never.
std::span<const KernelRow> definition_rows();

}  // namespace etalon::cuda
