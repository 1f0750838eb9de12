// The columns of sliding windows, added back into the image they were taken from: the second half
// of a convolution's gradient by its input, when the first is a matrix product.
//
//   y[n, c, p] = sum over taps r of x[n, c*R + r, q]   where p = q*stride - pad_begin + r*dilation
// with R = product(block_shape) taps, q the window that has point p under its tap r: taps that no
// window brings there are no terms. x [N, C*R, L], L windows row-major; y [N, C, image_shape].
// image_shape and block_shape are inputs 1 and 2, or the parameters of those names: 1 to 3 extents.
//
// k, the summed index, is r, row-major; it holds a place for every tap, met or not. Sums follow the
// contract's order over k, starting at +0. NaN and infinities follow IEEE 754; a point that no
// window reaches is +0.
// Source: ONNX Col2Im-18; Chellapilla, Puri, Simard (IWFHR 2006), whose unrolling it undoes.
#pragma once

#include "engine/ops/op.h"
#include "engine/ops/window.h"

namespace etalon {

struct Col2ImParams {
  Ints image_shape, block_shape;  // where inputs 1 and 2 are not given
  Ints strides, dilations, pads_begin, pads_end;
  template <class V>
  void visit(V& v) {
    v("image_shape", image_shape);
    v("block_shape", block_shape);
    v("strides", strides);
    v("dilations", dilations);
    v("pads_begin", pads_begin);
    v("pads_end", pads_end);
  }
};

struct Col2ImGeometry {
  std::int64_t batch, channels;
  Window window;  // slides over the image: `in` is y's extent, `out` counts the windows
  Shape output;
};
Col2ImGeometry col2im_geometry(const Col2ImParams& params, const InferInputs& in);

const OpRow& col2im_op();

}  // namespace etalon
