// The first pass of an exact product in f64 (exact.h).
#pragma once

#include "kernels/gemm/exact.h"

namespace etalon {

// b as f64_pass wants it.
void pack_f64(Isa isa, const ExactShape& shape, const MatrixView& b, int threads, ExactOperand& to);
// Appends the outputs that are undecided.
void f64_pass(Isa isa, const ExactTask& task, const ExactOperand& b, int threads,
              std::vector<std::int64_t>& left);

}  // namespace etalon
