#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

// resize by linear and cubic kernels under seq, on f32 (passes.h).
std::span<const KernelRow> resize_f32_rows();

// What passes over one axis at a time do not compute.
Refusal refuse_resize_passes(const Problem& problem);
// Where no axis changes: NaN made canonical.
void resize_copy(const KernelCall& call);

inline constexpr std::int64_t kResizeGrain = 8192;  // elements of a thread at least

}  // namespace etalon
