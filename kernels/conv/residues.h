#pragma once

#include "kernels/conv/exact_task.h"
#include "kernels/gemm/residue_operand.h"

namespace etalon {

// The first pass of an exact convolution through residues (kernels/gemm/residue_tile.h).
struct ConvResidues {
  // w with k walking (tap, channel), group by group, each in strips of 16 channels.
  std::vector<ResidueOperand> groups;
  bool finite = true;  // whether all of w is; if not there is no such pass
};
void pack_conv_residues(const ResidueSet& set, const ConvGeometry& g, const float* w, int threads,
                        ConvResidues& to);

// Why a convolution has no such pass.
Refusal refuse_conv_residues(const ConvGeometry& g);

// Appends the undecided outputs. False, with y untouched or not, where x holds NaN or infinity.
bool conv_residues(const ResidueSet& set, const ExactLanes& lanes, const ConvResidues& w,
                   const ExactConv& conv, std::vector<std::int64_t>& undecided);

}  // namespace etalon
