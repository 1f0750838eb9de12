// lstm on f32, contract seq, with the usual activations and neither peepholes nor clipping.
//
// A gate's argument is one fma chain over the terms of x, then those of h. The terms of x do not
// wait for the state: one product with W (kernels/gemm) begins the chains of all gates of several
// steps, and each step goes on with them by a product with R; both biases are added by one rounding
// each. The activations are the correctly rounded lanes of kernels/activation.
// Same bits: every output keeps its own chain; rows of the batch never meet, so threads take rows
// through all steps without waiting for each other.
// Limit: two 512-bit fma a cycle for the product; the lanes of sigmoid and tanh take about as long.
// gate_scan.h says what a single row does to come near it.
#pragma once

#include <cstdint>

#include "engine/backend/kernel.h"

namespace etalon {

// The terms of h for kGateVectors vectors of gates of one row, and beside them those of x for
// kAheadVectors vectors of gates of kAheadRows steps to come: half as many vectors as there are to
// do, so that a step with every second call beside it is done when the steps to come begin.
inline constexpr std::int64_t kGateVectors = 8, kAheadVectors = 2, kAheadRows = 8;
struct GateCall {
  std::int64_t k = 0;             // of both
  const float* state = nullptr;   // [k]
  const float* r = nullptr;       // strips of R
  const float* bias = nullptr;    // of these gates, added last, or none
  float* gates = nullptr;         // the chains so far; of a strip after the other
  const float* inputs = nullptr;  // [k][kAheadRows]
  const float* w = nullptr;       // strips of W
  float* ahead = nullptr;         // row r, vector v at ahead + r * ahead_row + v * lanes
  std::int64_t ahead_row = 0;
};

namespace avx512 {
void gates_and_ahead(const GateCall& call);
// c[j] = fma(f[j], c[j], round(i[j] * u[j])).
void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n);
}  // namespace avx512
namespace avx2 {
void lstm_cell(const float* i, const float* f, const float* u, float* c, std::int64_t n);
}  // namespace avx2

template <Isa isa>
KernelRow lstm_f32_row(std::string_view name);

}  // namespace etalon
