#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> elementwise_rows();  // all of them, fastest first
std::span<const KernelRow> elementwise_f32_rows();
// pow on f32 by vectors.
std::span<const KernelRow> elementwise_pow_rows();  // those of f32.cpp

// The definition of the ops that round once; also fills the truth.
void run_elementwise_definition(const KernelCall& call);

}  // namespace etalon
