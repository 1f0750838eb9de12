// Contract exact for operands in f16 and bf16: as f32, then rounded again.
//
// Operands widen without loss, and the f32 pass yields the correctly rounded f32. Rounding that to
// the narrow format differs from rounding the real value only where the f32 is a midpoint of the
// format: elsewhere real value and f32 lie on one side of every midpoint, because midpoints of f16
// and bf16 (those below their subnormals and above their largest number too) are numbers of f32.
// Outputs on midpoints, one in 2^13 or 2^16 of usual data, are left to the definition.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/kernel.h"

namespace etalon {

// Appends the outputs that it leaves to the definition; operands, output and `prepared` are f32's.
using ExactPass = FunctionRef<void(const KernelCall& call, std::vector<std::int64_t>& left)>;
// Runs the pass on the call, or on the call in f32, and rounds its output.
void run_exact_pass(const KernelCall& call, std::vector<std::int64_t>& left, ExactPass pass);

// A constant operand in f32: itself, or a copy in `copy`.
const Tensor* widened(const Tensor* tensor, int threads, Tensor& copy);

// All operands f32, all f16 or all bf16.
Refusal refuse_unless_exact_narrow(const Problem& problem);

}  // namespace etalon
