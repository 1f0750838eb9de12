// Transposed convolution in 1, 2 or 3 dimensions: the gradient of a convolution by its input.
//
//   y[n, g*O/G + o, p] = sum over c, r of x[n, g*C/G + c, q] * w[g*C/G + c, o, r] + b[g*O/G + o]
//   where p = q*stride - pad_begin + r*dilation
// with G groups, c over the C/G input channels of a group, r over the taps, q the input point that
// tap r of output p meets: taps that meet none (between strides, outside) are no terms. x
// [N,C,spatial], w [C,O/G,kernel], b [O] or absent, y [N,O,out].
//
//   out = (in - 1)*stride + (kernel - 1)*dilation + 1 + output_padding - pad_begin - pad_end
// output_shape, if given, fixes out instead: the pads are what is then too much, half of it at each
// end, the odd one at the end for auto_pad=same_upper and at the begin otherwise; if it is too
// little the pads are 0 and the rest is a margin that no tap meets (bias alone). auto_pad=same_* is
// output_shape = in*stride. valid: no pads.
//
// k, the summed index, walks (c, r) as the contract's `walk` says, by default c outermost, taps
// row-major; k holds a place for every tap, met or not. The bias is added last, by one rounding.
// NaN and infinities follow IEEE 754, an empty sum is +0.
// Source: Dumoulin, Visin (arXiv 1603.07285), section 4; ONNX ConvTranspose-22.
#pragma once

#include "engine/ops/op.h"
#include "engine/ops/window.h"

namespace etalon {

struct ConvTransposeParams {
  Ints strides, dilations, pads_begin, pads_end, output_padding, output_shape;
  AutoPad auto_pad = AutoPad::explicit_pads;
  std::int64_t groups = 1;
  template <class V>
  void visit(V& v) {
    v("strides", strides);
    v("dilations", dilations);
    v("pads_begin", pads_begin);
    v("pads_end", pads_end);
    v("output_padding", output_padding);
    v("output_shape", output_shape);
    v("auto_pad", auto_pad, {"explicit", "same_upper", "same_lower", "valid"});
    v("groups", groups);
  }
};

struct ConvTransposeGeometry {
  std::int64_t batch, in_channels, out_channels, groups;
  // Axes as in a Window: in and out are those of this op, at() is not used.
  Window window;
  ETALON_HD std::int64_t group_in() const { return in_channels / groups; }
  ETALON_HD std::int64_t group_out() const { return out_channels / groups; }
  ETALON_HD std::int64_t k() const { return group_in() * window.taps(); }
  Shape output_shape() const;
};

// The input point that tap r of output point o meets, or -1.
ETALON_HD inline std::int64_t met_input(const WindowAxis& a, std::int64_t o, std::int64_t r) {
  const std::int64_t at = o + a.pad_begin - r * a.dilation;
  return at < 0 || at % a.stride != 0 || at / a.stride >= a.in ? -1 : at / a.stride;
}

ConvTransposeGeometry conv_transpose_geometry(const ConvTransposeParams& params, const Shape& x,
                                              const Shape& w);

const OpRow& conv_transpose_op();

}  // namespace etalon
