#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> reduce_rows();      // all of them, fastest first
std::span<const KernelRow> reduce_f32_rows();  // those of f32.cpp

// The definition of reduce_max and reduce_min; also fills the truth.
void run_extremum_definition(const KernelCall& call);

struct StepFunctions;
const StepFunctions& step_functions(Isa isa);  // of what it has (f32_steps.h)

}  // namespace etalon
