// Ops that read or write where indices say, and ops that make tensors from shapes.
//
// Indices are i64 or i32; a negative one counts from the end; one outside its axis is a bad-input
// Error at run time. Elements are copied as bits, under every contract.
//   gather            x, indices: y[.., i.., ..] = x[.., indices[i..], ..] along `axis`. An
//                     embedding is a gather with axis 0
//   gather_elements   y[i..] = x[i.. with indices[i..] on `axis`]; indices has x's rank
//   gather_nd         the last axis of indices holds coordinates after batch_dims common axes
//   scatter_elements  x, indices, updates: y = x, then y[i.. with indices[i..] on axis] =
//   updates[i..] scatter_nd        likewise with coordinates
//                     reduction none: of several updates of one element the last (row-major) stays.
//                     add, mul, max, min: x's element first, then the updates row-major; floating
//                     sums follow the contract's order over that sequence (its first term is x),
//                     products run from the left, each one rounding; integers modulo 2^bits.
//                     An element that no update names is copied
//   one_hot           indices (any type, cut toward zero), depth, values [off, on]: on where the
//   new
//                     axis equals the index (negative: + depth); outside [-depth, depth) all off
//   shape, size       the extents [start, end), the element count, as i64
//   range             start, limit, delta: start + i*delta, rounded once, for all i >= 0 for which
//                     it lies before limit in the reals
//   constant_of_shape shape, value (one element; not given: f32 +0)
//   eye_like          ones on the k-th diagonal of a matrix, zeros elsewhere
//   non_zero          coordinates of the elements that are not zero (NaN is not), row-major, as a
//                     [rank, count] matrix of i64: its shape depends on the data
// Sources: ONNX operators at opset 23; NumPy manual (take, take_along_axis, nonzero).
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct GatherParams {
  std::int64_t axis = 0;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
  }
};

struct GatherNdParams {
  std::int64_t batch_dims = 0;
  template <class V>
  void visit(V& v) {
    v("batch_dims", batch_dims);
  }
};

enum class ScatterReduction { none, add, mul, max, min };
struct ScatterElementsParams {
  std::int64_t axis = 0;
  ScatterReduction reduction = ScatterReduction::none;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("reduction", reduction, {"none", "add", "mul", "max", "min"});
  }
};
struct ScatterNdParams {
  ScatterReduction reduction = ScatterReduction::none;
  template <class V>
  void visit(V& v) {
    v("reduction", reduction, {"none", "add", "mul", "max", "min"});
  }
};

struct OneHotParams {
  std::int64_t axis = -1;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
  }
};

struct ShapeParams {
  std::int64_t start = 0;
  std::int64_t end = kMaxRank;  // beyond the rank: to the end
  template <class V>
  void visit(V& v) {
    v("start", start);
    v("end", end);
  }
};

struct EyeLikeParams {
  std::string dtype;  // empty: that of the input
  std::int64_t k = 0;
  template <class V>
  void visit(V& v) {
    v("dtype", dtype);
    v("k", k);
  }
};

// [start, end) of shape's output.
std::pair<int, int> shape_range(const ShapeParams& params, int rank);

// Coordinates of gather_nd and scatter_nd: `count` of them, `depth` numbers each, name blocks of
// `block` elements.
struct NdGeometry {
  int batch_dims = 0, depth = 0;
  std::int64_t count = 0, block = 0;
  Shape output;  // of gather_nd; of updates for scatter_nd
};
NdGeometry nd_geometry(const Shape& x, const Shape& indices, std::int64_t batch_dims);

// Number of elements of range for floating or integer bounds.
std::int64_t range_count(const Tensor& start, const Tensor& limit, const Tensor& delta);

std::span<const OpRow> indexing_ops();

}  // namespace etalon
