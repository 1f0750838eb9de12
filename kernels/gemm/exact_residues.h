// The first pass of an exact product through residues (residue_tile.h), in place of the one in f64.
#pragma once

#include "kernels/gemm/exact.h"

namespace etalon {

// Whether they are faster than f64, by a model of both; a choice of speed alone: the bits are the
// correctly rounded ones either way.
bool residues_pay(const ExactShape& shape);
// Appends the outputs that are undecided.
void residues_pass(const ResidueSet& set, const ExactLanes& lanes, const ExactTask& task,
                   const ResidueOperand& b, int threads, std::vector<std::int64_t>& left);

}  // namespace etalon
