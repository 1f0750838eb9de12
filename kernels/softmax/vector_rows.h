// softmax and log_softmax of f32 rows that lie contiguous in memory, summed by seq or lanes:N.
//
// As the definition: d_k = x_k - m in f32, e_k = e^(d_k) rounded once (the vectors of
// activation/lanes.h), their sum by the contract's own accumulator, then one division or one
// subtraction an element. Elementwise steps cannot depend on the order they are done in, and the
// sum is the definition's code: so the bits agree.
//
// Under `exact`: the exponentials and their sum in f64, each output an interval that is rounded at
// both ends; a row in which one is not decided (once in about 2^17 outputs) is left to the
// definition.
#pragma once

#include <vector>

#include "engine/backend/kernel.h"

namespace etalon {

const std::vector<KernelRow>& softmax_vector_rows();

}  // namespace etalon
