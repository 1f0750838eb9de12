// conv, f32, contract seq: rows on the tiles of one instruction set.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

template <Isa isa>
KernelRow conv_f32_row(std::string_view name);

}  // namespace etalon
