#pragma once

#include "engine/backend/kernel.h"
#include "kernels/gemm/exact.h"

namespace etalon {

// conv on f32 under exact: a first pass in f64 with a proven bound (kernels/gemm/exact.h).
template <Isa isa>
KernelRow conv_exact_row(std::string_view name);

// As the row does it, but for the steps left out.
void run_conv_exact(const KernelCall& call, Isa isa, const ExactSteps& steps);

}  // namespace etalon
