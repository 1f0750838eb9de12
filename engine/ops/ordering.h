// Ops along one axis that compare or accumulate.
//
//   arg_max, arg_min  index (i64) of the largest, smallest element along `axis`; of equals the
//                     first, or the last with select_last_index. A NaN stands over every number for
//                     both (the first NaN is the answer), as in NumPy; +0 equals -0
//   top_k             x, k: the k largest (or smallest) elements along `axis`, sorted, and their
//                     indices (i64). Of equals the lower index comes first. NaN counts as larger
//                     than +inf. `sorted` = false promises no sequence elsewhere; here it is the
//                     same. Values are copied as bits
//   cum_sum           y[i] = sum of x[0..i] along the axis (input 1 or parameter), or of x[0..i-1]
//                     when exclusive (y[0] = +0); reverse starts at the other end. Each output is
//                     the sum of its own terms in the contract's order, in the sequence in which
//                     they are met: under seq that is one running chain. Integers modulo 2^bits
//   cum_prod          likewise with products: from 1, each times the next, one rounding a factor
//
// Errors: an axis outside the tensor, an empty axis (arg_max, arg_min), k beyond the extent.
// Sources: ONNX operators at opset 23; NumPy manual (argmax, cumsum).
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct ArgParams {
  std::int64_t axis = 0;
  bool keepdims = true;
  bool select_last_index = false;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("keepdims", keepdims);
    v("select_last_index", select_last_index);
  }
};

struct TopKParams {
  std::int64_t axis = -1;
  std::int64_t k = 1;  // where input 1 is not given
  bool largest = true;
  bool sorted = true;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("k", k);
    v("largest", largest);
    v("sorted", sorted);
  }
};

struct CumSumParams {
  std::int64_t axis = 0;  // where input 1 is not given
  bool exclusive = false;
  bool reverse = false;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("exclusive", exclusive);
    v("reverse", reverse);
  }
};

// A tensor as [outer, extent, inner] around one axis.
struct AxisView {
  std::int64_t outer, extent, inner;
};
AxisView axis_view(const Shape& shape, int axis);

std::span<const OpRow> ordering_ops();

}  // namespace etalon
