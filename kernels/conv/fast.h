// conv, f32, contract seq: rows on the tiles of one instruction set.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

// Of every row whose sum is one chain along crs; of those over f32.
Refusal refuse_conv_seq(const Problem& problem);
Refusal refuse_conv_seq_f32(const Problem& problem);

template <Isa isa>
KernelRow conv_f32_row(std::string_view name);

}  // namespace etalon
