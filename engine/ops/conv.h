// Convolution (cross-correlation, as every deep-learning framework means it) in 1, 2 or 3
// dimensions.
//
//   y[n,o,p] = sum over c, r of x[n, g*C/G + c, p*stride - pad_begin + r*dilation] * w[o,c,r]  +
//   b[o]
//
// with G groups, g = o / (O/G), c over the C/G channels of the group, p and r multi-indices over
// the spatial axes. Shapes: x [N,C,spatial], w [O,C/G,kernel], b [O] or absent, y [N,O,out];
// row-major. k, the summed index, walks (c, r) as the contract's `walk` says, by default c
// outermost.
//
// A sum starts at +0 and taps outside the input are not terms (they are skipped, not added as
// zeros: an infinite weight over padding makes no NaN, and -0 stays -0). The bias is added last, by
// one rounding. NaN and infinities follow IEEE 754; any NaN result is the canonical one. An empty
// sum is +0. Source: Dumoulin, Visin, "A guide to convolution arithmetic" (arXiv 1603.07285),
// sections 2 and 4; ONNX Conv-11.
#pragma once

#include "engine/ops/op.h"
#include "engine/ops/window.h"

namespace etalon {

struct ConvParams : WindowParams {
  std::int64_t groups = 1;
  template <class V>
  void visit(V& v) {
    v("strides", strides);
    v("dilations", dilations);
    v("pads_begin", pads_begin);
    v("pads_end", pads_end);
    v("auto_pad", auto_pad, {"explicit", "same_upper", "same_lower", "valid"});
    v("groups", groups);
  }
};

// All extents of one convolution, checked.
struct ConvGeometry {
  std::int64_t batch, in_channels, out_channels, groups;
  Window window;
  ETALON_HD std::int64_t group_in() const { return in_channels / groups; }
  ETALON_HD std::int64_t group_out() const { return out_channels / groups; }
  ETALON_HD std::int64_t k() const { return group_in() * window.taps(); }
  Shape output_shape() const;
};

// Throws a bad-input Error naming the tensor and the extent that does not fit.
ConvGeometry conv_geometry(const ConvParams& params, const Shape& x, const Shape& w);

const OpRow& conv_op();

}  // namespace etalon
