// gru and rnn on f32, contract seq, with the usual activations and no clip.
//
// As lstm.h: a gate's argument is one fma chain over the terms of x, then those of the state, begun
// for several steps by one product and gone on with step by step. Of gru the gates z and r are one
// product; the candidate is another, over round(r h), or with linear_before_reset over h alone,
// from zero, which fma(r, that, sum over x) brings in.
#pragma once

#include "engine/backend/kernel.h"

namespace etalon {

template <Isa isa>
KernelRow gru_f32_row(std::string_view name);
template <Isa isa>
KernelRow rnn_f32_row(std::string_view name);

}  // namespace etalon
