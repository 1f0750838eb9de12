// Chains of pointwise steps (engine/backend/pointwise.h) on vectors: each is loaded once, goes
// through all steps in registers and is stored once.
// Same bits: a step is the IEEE operations of its op's own row, lane by lane. NaN is made canonical
// before a ReLU and at the end; between other steps its payload is nobody's.
#pragma once

#include <span>

#include "engine/backend/kernel.h"
#include "engine/backend/pointwise.h"

namespace etalon {

namespace avx512 {
void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part);
}
namespace avx2 {
void run_steps(std::span<const PointwiseStep> steps, float* y, const OutputPart& part);
}

using RunSteps = void (*)(std::span<const PointwiseStep>, float*, const OutputPart&);
// As KernelRow::run_steps; nullptr where the instruction set has no form.
inline RunSteps run_steps_of([[maybe_unused]] Isa isa) {
#if defined(__x86_64__)
  if (isa >= Isa::avx512) return avx512::run_steps;
  if (isa >= Isa::avx2) return avx2::run_steps;
#endif
  return nullptr;
}

}  // namespace etalon
