// conv_transpose, contracts seq and exact on f32, every order on f32, f16 and bf16: by convolutions
// of stride 1.
//
// Outputs of one remainder f by the stride meet the same taps of the kernel, r0, r0 + s/g, ...,
// with g = gcd(stride s, dilation d): a phase. Of output f + s j its k-th tap meets input
//   i = j + b - k d/g,   b = (f + pad - r0 d)/s,
// so that a phase is a convolution whose taps walk the input backwards. conv walks its taps
// forwards, and the sum's order is the taps', therefore the input is turned around, u = in - 1 - i,
// and so are the outputs, j' = last - j: then u = j' + k d/g - P with P = last + 1 + b - in, a
// convolution of stride 1 and dilation d/g over the turned input, whose chain has the same terms in
// the same order. Axes on which a phase has one tap need no turn. P and its counterpart at the end
// are padding where they are positive and cut the input where they are negative; outputs that no
// tap meets are the bias alone.
//
// Same bits: the rows of conv promise the contract on the phase, whose terms are those of the op,
// k ascending; taps that meet nothing are no terms in both. Other orders are compiled for all terms
// of the op and lose those that the phase has not (of_present_terms), so that a term has its place
// in the tree whatever phase it meets. Source of the phases: Dumoulin, Visin (arXiv 1603.07285),
// section 4.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

template <Isa isa>
KernelRow conv_transpose_seq_row(std::string_view name);
template <Isa isa>
KernelRow conv_transpose_exact_row(std::string_view name);
template <Isa isa>
KernelRow conv_transpose_order_row(std::string_view name);

}  // namespace etalon
