// Contract exact for operands in f16 and bf16: as f32, then rounded again.
//
// Operands widen without loss. Rounding an f32 to the narrow format differs from rounding the real
// value only where a midpoint of the format lies between the two, or is the f32. So the pass may
// leave any f32 that no midpoint parts from the real value (ExactCells): the correctly rounded f32,
// which is often a tie where operands have few bits, is not needed. Midpoints of f16 and bf16
// (those below their subnormals and above their largest number too) are numbers of f32; outputs on
// one are left to the definition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/kernel.h"
#include "kernels/gemm/exact.h"

namespace etalon {

// Appends the outputs that it leaves to the definition; operands, output and `prepared` are f32's.
// Of a narrower format steps.cells are set: an f32 need only be of the right one.
using ExactPass = FunctionRef<void(const KernelCall& call, const ExactSteps& steps,
                                   std::vector<std::int64_t>& left)>;
// The pass on the call, or on the call in f32 and its output rounded; then the definition of what
// is left.
void run_exact_pass(const KernelCall& call, ExactSteps steps, ExactPass pass,
                    void (*definition)(const KernelCall&, std::span<const std::int64_t>));

// What the pass prepares, of the problem or of the problem in f32.
Prepared prepare_exact_pass(const Problem& problem, int threads,
                            FunctionRef<Prepared(const Problem&)> prepare);

// All operands f32, all f16 or all bf16.
Refusal refuse_unless_exact_narrow(const Problem& problem);

}  // namespace etalon
