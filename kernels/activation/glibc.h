#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// The C library's f32 functions, one call an element: what programs without vectors run. A vendor's
// rows: asked for by name, nothing promised. Empty where the library is not glibc.
std::span<const KernelRow> glibc_rows();

}  // namespace etalon
