#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

// conv on f32 under exact: a first pass in f64 with a proven bound (kernels/gemm/exact.h).
template <Isa isa>
KernelRow conv_exact_row(std::string_view name);

}  // namespace etalon
