#pragma once

#include <span>

#include "engine/backend/kernel.h"

namespace etalon {

std::span<const KernelRow> quantize_rows();
// Between f32 and integers of 8 and 16 bits, by vectors.
std::span<const KernelRow> quantize_vector_rows();
// cast from f32 to integers of 8 and 16 bits.
std::span<const KernelRow> narrow_cast_rows();

void run_quantize_definition(const KernelCall& call);
void run_dequantize_definition(const KernelCall& call);
// x / scale, the real quotient, rounded to the nearest integer, halves to even.
double round_quotient(double x, double scale);

}  // namespace etalon
