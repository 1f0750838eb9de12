// Convolution of tensors whose channels are the last axis (NHWC in two dimensions), as TensorFlow,
// TensorFlow Lite and TensorFlow.js store them, in 1, 2 or 3 dimensions.
//
//   y[n,p,o] = sum over c, r of x[n, p*stride - pad_begin + r*dilation, g*C/G + c] * w[o,c,r] +
//   b[o]
//
// with G groups, g = o / (O/G), c over the C/G channels of the group, p and r multi-indices over
// the spatial axes. Shapes: x [N,spatial,C], w [O,C/G,kernel] as `conv` has it, b [O] or absent, y
// [N,out,O]; row-major.
//
// The bits are those of `conv` (engine/ops/conv.h) on the same numbers: where a tensor's elements
// lie is no part of a sum. So k, the summed index, walks (c, r) as the contract's `walk` says, by
// default c outermost, a sum starts at +0, taps outside the input are not terms, the bias is added
// last by one rounding; NaN, infinities and the empty sum as there. Source: Dumoulin, Visin, "A
// guide to convolution arithmetic" (arXiv 1603.07285), section 2; ONNX Conv-11.
#pragma once

#include "engine/ops/conv.h"

namespace etalon {

// Of the convolution that it is once channels come first; its output_shape() is of that one.
// Throws as conv_geometry does.
ConvGeometry conv_channels_last_geometry(const ConvParams& params, const Shape& x, const Shape& w);

// [N,C,spatial] of [N,spatial,C], and back.
Shape channels_first(const Shape& shape);
Shape channels_last(const Shape& shape);

const OpRow& conv_channels_last_op();

}  // namespace etalon
