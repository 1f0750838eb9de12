// lstm on f32, contract seq, with the usual activations and neither peepholes nor clipping.
//
// A gate's argument is one fma chain over the terms of x, then those of h. The terms of x do not
// wait for the state: one product with W (kernels/gemm) begins the chains of all gates of several
// steps, and each step goes on with them by a product with R; both biases are added by one rounding
// each. The activations are the correctly rounded lanes of kernels/activation.
// Same bits: every output keeps its own chain; rows of the batch never meet, so threads take rows
// through all steps without waiting for each other.
// Limit: two 512-bit fma a cycle for the product; the lanes of sigmoid and tanh take about as long.
#pragma once

#include <cstdint>

#include "engine/backend/kernel.h"

namespace etalon {

namespace avx512 {
// c[j] = fma(f[j], c[j], round(i[j] * u[j])).
void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n);
}  // namespace avx512
namespace avx2 {
void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n);
}  // namespace avx2

template <Isa isa>
KernelRow lstm_f32_row(std::string_view name);

}  // namespace etalon
