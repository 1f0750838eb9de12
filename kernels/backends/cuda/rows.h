#pragma once

#include <span>
#include <string_view>

#include "engine/backend/kernel.h"

namespace etalon::cuda {

// Rows of the ops that run on a GPU. Each call copies its inputs to the device and its output back.
std::span<const KernelRow> rows();

// The device and commit on which a row's bits were compared with the CPU's, as docs/evidence has
// it; "never" where no hardware has.
std::string_view seen_on(std::string_view row);

}  // namespace etalon::cuda
