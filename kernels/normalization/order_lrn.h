// lrn under every contract: sums of squares over a window of channels, lanes are neighbouring
// pixels.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

template <Isa isa>
KernelRow lrn_order_row(std::string_view name);

}  // namespace etalon
