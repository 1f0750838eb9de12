// The first pass of an exact product in f64 (exact.h).
#pragma once

#include "kernels/gemm/exact.h"

namespace etalon {

// Adds the squares of terms [from, from + terms) of rows [top, top + height) to sums, height at
// most `width`, two vectors. Rows that lie side by side are walked so: one by one, each element of
// theirs would bring a cache line of its own.
void add_squares(const ExactLanes& lanes, const MatrixView& v, std::int64_t rows, std::int64_t top,
                 int height, std::int64_t from, std::int64_t terms, int width, double* sums);
// b as f64_pass wants it.
void pack_f64(Isa isa, const ExactShape& shape, const MatrixView& b, int threads, ExactOperand& to);
// Appends the outputs that are undecided.
void f64_pass(Isa isa, const ExactTask& task, const ExactOperand& b, int threads,
              std::vector<std::int64_t>& left);

}  // namespace etalon
