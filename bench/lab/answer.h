// The questions of the lab and their answers, in one text for the program and for WebAssembly.
//
// A question is a JSON object: a problem (problem.h) and "do":
//   conv   the convolution under the contract, compared with the correctly rounded one:
//            {"contract", "kernel", "hash", "shape", "y": [...], "ulp": [...],
//             "stats": {...}, "k", "cost", "bound_ulp"}
//          "ulp" is the signed error of each output in units of its last place, "bound_ulp" the
//          largest it could be at the worst output: for direct forms in any order of summation,
//          for the others a priori (kernels/conv/algorithm_cost.h), null where there is no
//          statement; "cost" counts operations and bytes of transformed tensors; "values": false
//          leaves y and ulp out; "relative" among the stats is the error's size against the
//          result's, roots of sums of squares, in units of 2^-24
//   cost   only "cost", of any size, and how many outputs ("elements") it makes
//   tree   how one output ("at", an index into y) came to be, from the algorithm's own text:
//            {"nodes": [[kind, a, b, c, value, born], ...], "root", "exact"}; kinds are those
//          of traced.h, operands places in the list (-2 - place: with the sign turned); "exact"
//          is the exact sum of the factors as they were given, rounded or not
//   kernel which kernel would compute it, and why others would not
//   transform  the matrices of a Winograd contract as fractions: {"a_t", "g", "b_t"}
//   spectrum   for an FFT contract, log2 of the sizes of what it multiplies, of channel 0 and
//              filter 0, in the tile of output "at": {"width", "height", "x", "w"}
// A fault is {"error": one sentence}.
#pragma once

#include <string>
#include <string_view>

#include "engine/core/tensor.h"

namespace etalon::lab {

std::string answer(std::string_view question);
// The outputs of a question "conv"; an Error says what cannot be.
Tensor outputs(std::string_view question);

}  // namespace etalon::lab
