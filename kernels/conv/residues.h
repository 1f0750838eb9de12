#pragma once

#include "kernels/conv/exact_task.h"
#include "kernels/gemm/residue_operand.h"

namespace etalon {

// The first pass of an exact convolution through residues (kernels/gemm/residue_tile.h). Layers of
// one tap are products of w and x, group by group; the others walk windows (residue_plan.h).
struct ConvResidues {
  // In strips of 16 channels: of a product as its left operand, else with k walking (tap, channel)
  // and as the right one.
  std::vector<ResidueOperand> groups;
  bool finite = true;  // whether all of w is; if not windows have no such pass
};
void pack_conv_residues(const ResidueSet& set, const ConvGeometry& g, const float* w, int threads,
                        ConvResidues& to);

// Why a convolution has no such pass: none at all, or none that is faster.
Refusal refuse_conv_residues(const ConvGeometry& g);
bool conv_residues_possible(const ConvGeometry& g);

// Appends the undecided outputs. False, with y untouched or not, where windows hold NaN or
// infinity.
bool conv_residues(const ResidueSet& set, const ExactLanes& lanes, const ConvResidues& w,
                   const ExactConv& conv, std::vector<std::int64_t>& undecided);

}  // namespace etalon
