#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> conv_rows();
// The listed outputs, row-major, by the definition.
void run_conv_definition(const KernelCall& call, std::span<const std::int64_t> outputs);

}  // namespace etalon
