#pragma once

#include <vector>

#include "engine/backend/kernel.h"
#include "engine/ops/pool.h"

namespace etalon {

// max_pool (without indices) and avg_pool on f32, contract seq, by vectors of neighbouring outputs.
template <Isa isa>
KernelRow max_pool_f32_row(std::string_view name);
template <Isa isa>
KernelRow average_pool_f32_row(std::string_view name);
// The same without vectors, for any machine (scalar.cpp).
KernelRow max_pool_scalar_row();
KernelRow average_pool_scalar_row();
void run_max_pool_scalar(const KernelCall& call);
void run_average_pool_scalar(const KernelCall& call);

// By f64 sums, contract exact, for any machine (exact.cpp).
KernelRow average_pool_exact_row();
KernelRow global_average_pool_exact_row();
// What max pools run where the truth is asked for too: it gives both.
void run_max_pool_definition(const KernelCall& call);
void run_global_max_pool_definition(const KernelCall& call);

Refusal refuse_max_pool(const Problem& problem);
// The count that each output's sum is divided by: engine/ops/pool.h.
std::vector<float> average_divisors(const PoolGeometry& g, const AvgPoolParams& p);

}  // namespace etalon
