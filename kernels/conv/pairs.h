// conv of bf16 by words of two terms.
#pragma once

#include <string_view>

#include "engine/backend/kernel.h"

namespace etalon {

KernelRow conv_pairs_row(std::string_view name);

}  // namespace etalon
