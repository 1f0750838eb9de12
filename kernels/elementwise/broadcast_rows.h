// Binary ops row by row: what f32_rows.h does with a row, over operands that broadcast, in f32 or
// with f16 and bf16 in memory.
#pragma once

#include <string_view>

#include "engine/backend/kernel.h"
#include "kernels/elementwise/f32_rows.h"

namespace etalon {

inline constexpr std::string_view kF32Ops[] = {"add", "sub", "mul",   "div",
                                               "max", "min", "prelu", "sum"};  // by F32Op
F32Op f32_op(std::string_view op);  // an internal Error where it is none

// Output 0 becomes a op b. `a` is null where the output itself is the first operand.
void combine_f32(const KernelCall& call, F32Row row, F32Op op, const Tensor* a, const Tensor& b);

#if defined(__x86_64__)
// All of f16 or of bf16: widened, computed in f32 and rounded, on AVX2. For the four operations
// that is the operation rounded once: f32 has more than twice the digits of either format and two
// more (S. A. Figueroa, When is double rounding innocuous?, 1995), and where both formats are
// subnormal still as many more than a sum, product or quotient needs to lie on a midpoint or well
// beside it.
void combine_halves(const KernelCall& call, F32Op op, const Tensor* a, const Tensor& b);
#endif

}  // namespace etalon
