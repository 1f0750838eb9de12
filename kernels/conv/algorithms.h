// Rows of the convolution algorithms besides direct: algo=im2col, winograd, fft.
#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// Of every contract; the fast ones (algorithms_fast.h) are asked before them.
KernelRow im2col_definition_row();
KernelRow winograd_definition_row();
KernelRow fft_definition_row();

}  // namespace etalon
