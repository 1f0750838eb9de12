// Products of integers with zero points.
//
//   conv_integer   y[n,o,p] = sum over c, r of (x[n, .., p*stride - pad + r*dilation] - x_zero) *
//                  (w[o,c,r] - w_zero[o]), in i32, modulo 2^32
//
// Shapes and parameters as conv (engine/ops/conv.h); x and w are i8 or u8, x_zero has one element,
// w_zero one or one for each output channel; not given they are 0. Padding counts as x_zero, so its
// taps are no terms. The result is exact but for the wrap, under every contract.
// Source: ONNX ConvInteger-10.
#pragma once

#include "engine/ops/conv.h"

namespace etalon {

std::span<const OpRow> integer_ops();

}  // namespace etalon
