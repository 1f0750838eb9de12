#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> reduce_rows();

struct StepFunctions;
const StepFunctions& step_functions(
    Isa isa);  // of what it has (f32_steps.h)      // all of them, fastest first
std::span<const KernelRow> reduce_f32_rows();  // those of f32.cpp

}  // namespace etalon
