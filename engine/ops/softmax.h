// softmax, log_softmax and hardmax along one axis.
//
//   softmax      y_k = e^(x_k - m) / sum over j of e^(x_j - m),         m = max x
//   log_softmax  y_k = (x_k - m) - log(sum over j of e^(x_j - m))
//   hardmax      y_k = 1 at the first k where x_k = m, else 0
//
// x has any rank of at least 1; k runs along `axis`, or, with `flatten` (ONNX before opset 13),
// over all axes from `axis` on, row-major. Rounding: d_k = round(x_k - m), e_k = round(e^d_k), s =
// sum of e_k in the contract's order, then y_k = round(e_k / s), or y_k = round(d_k - round(log
// s)). Under `exact` each y_k is the correctly rounded real value. A slice is one row, so that rows
// of a batch do not see each other. Special values: a NaN or +inf anywhere in a row makes the row
// NaN, and so does a row of -inf alone; -inf among others gives +0 (log_softmax: -inf). hardmax
// takes the first NaN as the largest element, then the first maximum (+0 equals -0); it is
// discrete. An empty axis gives an empty tensor. Source: ONNX Softmax-1, -11 and -13, LogSoftmax,
// Hardmax; Blanchard, Higham, Higham, "Accurately computing the log-sum-exp and softmax functions"
// (IMA J. Numer. Anal. 2021).
#pragma once

#include <span>

#include "engine/ops/op.h"

namespace etalon {

struct SoftmaxParams {
  std::int64_t axis = -1;
  bool flatten = false;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("flatten", flatten);
  }
};

// Element k of row r lies at first(r) + k*stride.
struct SoftmaxGeometry {
  std::int64_t rows, length, stride;
  ETALON_HD std::int64_t first(std::int64_t row) const {
    return row / stride * length * stride + row % stride;
  }
};

SoftmaxGeometry softmax_geometry(const SoftmaxParams& params, const Shape& x);

std::span<const OpRow> softmax_ops();

}  // namespace etalon
