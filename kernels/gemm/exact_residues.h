// The first pass of an exact product through residues (residue_tile.h), in place of the one in f64.
#pragma once

#include "kernels/gemm/exact.h"

namespace etalon {

// About the cycles of such a pass of sums of k terms: rows that pass by, in blocks, by those of an
// operand that was packed beforehand.
double residues_cycles(std::int64_t passing, std::int64_t staying, std::int64_t k);
// Whether it is faster than f64, by models of both; a choice of speed alone: the bits are the
// correctly rounded ones either way.
bool residues_pay(const ExactShape& shape);
// Appends the outputs that are undecided. `stays` is b, or a where `left_stays`.
void residues_pass(const ResidueSet& set, const ExactLanes& lanes, const ExactTask& task,
                   const ResidueOperand& stays, bool left_stays, int threads,
                   std::vector<std::int64_t>& left);

}  // namespace etalon
