#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> activation_rows();
// Any activation of one input, by its definition.
void run_activation_definition(const KernelCall& call);
void run_prelu_definition(const KernelCall& call);

}  // namespace etalon
