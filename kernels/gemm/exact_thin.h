// The first pass of contract exact for products with one or two rows or columns: the other operand,
// as large as the work, is read once, from f32 where it lies.
//
// Each output is a dot product in f64 of a vector v and a row x of that operand, with |x|^2 beside
// it for the bound of exact.h: one more fused multiply-add for each element, hidden behind memory.
// Where k is contiguous, `lanes` partial sums run along it: no term meets more than k / lanes +
// lanes roundings. Where neighbours are outputs, all of them are carried through k, four steps at a
// time, k roundings each.
#pragma once

#include "kernels/gemm/exact.h"

namespace etalon {

// Up to so many rows or columns a product is thin.
inline constexpr std::int64_t kThin = 2;

// Of a constant b with more rows than a, their norms: all that thin_pass makes of it beforehand.
void pack_thin(Isa isa, const ExactShape& shape, const MatrixView& b, int threads,
               ExactOperand& to);
// Appends what the test leaves. `added` of an output is beta * c.
void thin_pass(const ExactLanes& lanes, const ExactTask& task, int threads,
               std::vector<std::int64_t>& left);

}  // namespace etalon
