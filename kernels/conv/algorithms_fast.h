// conv, f32, algo=im2col, winograd and fft: rows on the tiles of one instruction set.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

template <Isa isa>
KernelRow im2col_f32_row(std::string_view name);
template <Isa isa>
KernelRow winograd_f32_row(std::string_view name);
template <Isa isa>
KernelRow fft_f32_row(std::string_view name);

}  // namespace etalon
