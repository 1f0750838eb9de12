#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> elementwise_rows();  // all of them, fastest first
std::span<const KernelRow> elementwise_f32_rows();
std::span<const KernelRow> elementwise_half_rows();
std::span<const KernelRow> elementwise_sum_rows();
std::span<const KernelRow> elementwise_pow_rows();

// The definitions of the ops that round once, and of sum and mean; they also fill the truth.
void run_elementwise_definition(const KernelCall& call);
void run_sum_definition(const KernelCall& call);

}  // namespace etalon
