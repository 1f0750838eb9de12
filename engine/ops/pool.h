// Pooling over windows in 1, 2 or 3 dimensions: x [N,C,spatial] gives y [N,C,out], row-major.
//
//   max_pool         y = max over the taps r inside the input of x[n,c, p*stride - pad +
//   r*dilation] avg_pool         y = (sum over the taps inside) / count lp_pool          y = (sum
//   over the taps inside of |x|^p)^(1/p) global_max_pool, global_avg_pool, global_lp_pool: one
//   window over all spatial axes, out = 1
//
// The taps of a window are walked row-major, last axis fastest; that is k of the sums. Taps in the
// padding are no terms.
//
// Rounding. max_pool: the chosen element, rounded to the stored format. avg_pool: s = sum in the
// contract's order, y = div(s, count). lp_pool: p = 1 sums |x|, p = 2 sums products x*x and takes
// sqrt, any other p sums round(|x|^p) and takes round(s^e), e = round(1/p).
//
// avg_pool's count is that of the taps inside the input; with count_include_pad also of those in
// the declared padding (not of those beyond it that ceil_mode brings); divisor_override, if not 0,
// replaces it. A window without a counted tap is 0/0 = NaN.
// max_pool: NaN wins over everything, a tie takes the first tap (+0 before -0 stays +0), a window
// without a tap inside is -inf (the lowest value of an integer type). With indices=plane or tensor
// a second output i64 holds where the element was found: row-major within the [spatial] plane of
// (n,c), or in the whole tensor; column_major counts the plane with the first spatial axis fastest.
// A window without a tap has index -1. Indices of the whole tensor are the one output here that is
// not per sample.
// Source: ONNX MaxPool-22, AveragePool-22, LpPool-22, Global*Pool; PyTorch's functional.max_pool2d
// (plane indices) and avg_pool2d (divisor_override); Dumoulin, Visin (arXiv 1603.07285), section 3.
#pragma once

#include <span>

#include "engine/ops/op.h"
#include "engine/ops/window.h"

namespace etalon {

struct PoolParams : WindowParams {
  Ints kernel;
  template <class V>
  void visit(V& v) {
    v("kernel", kernel);
    v("strides", strides);
    v("dilations", dilations);
    v("pads_begin", pads_begin);
    v("pads_end", pads_end);
    v("auto_pad", auto_pad, {"explicit", "same_upper", "same_lower", "valid"});
    v("ceil_mode", ceil_mode);
  }
};

enum class PoolIndices { none, plane, tensor };

struct MaxPoolParams : PoolParams {
  PoolIndices indices = PoolIndices::none;
  bool column_major = false;
  template <class V>
  void visit(V& v) {
    PoolParams::visit(v);
    v("indices", indices, {"none", "plane", "tensor"});
    v("column_major", column_major);
  }
};

struct AvgPoolParams : PoolParams {
  bool count_include_pad = false;
  std::int64_t divisor_override = 0;
  template <class V>
  void visit(V& v) {
    PoolParams::visit(v);
    v("count_include_pad", count_include_pad);
    v("divisor_override", divisor_override);
  }
};

struct LpPoolParams : PoolParams {
  float p = 2;
  template <class V>
  void visit(V& v) {
    PoolParams::visit(v);
    v("p", p);
  }
};

struct GlobalLpPoolParams {
  float p = 2;
  template <class V>
  void visit(V& v) {
    v("p", p);
  }
};

struct PoolGeometry {
  std::int64_t batch, channels;
  Window window;
  ETALON_HD std::int64_t planes() const { return batch * channels; }
  ETALON_HD std::int64_t points() const { return planes() * window.out_points(); }
  Shape output_shape() const;
};

PoolGeometry pool_geometry(const PoolParams& params, const Shape& x);
PoolGeometry global_pool_geometry(const Shape& x);

std::span<const OpRow> pool_ops();

}  // namespace etalon
