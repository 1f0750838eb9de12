#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

// max_pool (without indices) and avg_pool on f32, contract seq, by vectors of neighbouring outputs.
template <Isa isa>
KernelRow max_pool_f32_row(std::string_view name);
template <Isa isa>
KernelRow average_pool_f32_row(std::string_view name);

}  // namespace etalon
