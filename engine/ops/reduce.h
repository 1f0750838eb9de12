// Reductions over some or all axes.
//
//   reduce_sum          sum x                 reduce_mean     (sum x) / n
//   reduce_l1           sum |x|               reduce_l2       sqrt(sum x^2)
//   reduce_sum_square   sum x^2               reduce_prod     product, from the left
//   reduce_log_sum      log(sum x)            reduce_log_sum_exp   log(sum exp(x))
//   reduce_max, reduce_min
//
// `axes` (input 1 or parameter; negatives count from the end) names the axes that vanish, or stay
// as extent 1 with keepdims. No axes: all of them, or, with noop_with_empty_axes, none: then each
// element is reduced alone (reduce_l1 gives |x|). k runs over the reduced elements row-major; sums
// follow the contract's order over k, starting at +0; each further step (division, root, logarithm)
// is one rounding. A square enters its sum as a fused product. log_sum_exp is max + log(sum exp(x -
// max)) with max as computed, each step one rounding; an infinite max is the result itself. Under
// `exact` all of them are the correctly rounded real value.
//
// Special values: max and min let NaN win (canonical) and keep the first on a tie; a log of a
// negative sum is NaN, of zero -inf. No elements: sums +0, product 1, mean NaN, log_sum and
// log_sum_exp -inf, max -inf and min +inf.
// Integers: sum, sum_square, l1 and prod modulo 2^bits; mean is the exact sum over n, cut toward
// zero (0 of no elements); max and min, of no elements the type's least and greatest; bool: max and
// min. The others are refused on integers.
// Sources: ONNX operators at opset 23; NumPy manual.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct ReduceParams {
  Ints axes;  // where input 1 is not given
  bool keepdims = true;
  bool noop_with_empty_axes = false;
  template <class V>
  void visit(V& v) {
    v("axes", axes);
    v("keepdims", keepdims);
    v("noop_with_empty_axes", noop_with_empty_axes);
  }
};

// The input's axes, split: element (o, k) lies at offset(o) + offset(k).
struct ReduceGeometry {
  Shape kept, reduced;  // extents in sequence
  std::array<std::int64_t, kMaxRank> kept_strides{}, reduced_strides{};
  Shape output;
};

ReduceGeometry reduce_geometry(const ReduceParams& params, const InferInputs& in);

std::span<const OpRow> reduce_ops();

}  // namespace etalon
