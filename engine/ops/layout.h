// Ops that move elements and compute nothing. Bits are copied, NaN payloads and subnormals
// included, under every contract; every element type is taken. Zero extents are shapes like others.
//
//   identity          y = x
//   reshape           x, shape: the same elements, row-major. One extent may be -1 (what is left);
//                     0 copies the extent of x at that place, or is a zero with allowzero
//   flatten           [d0*..*d(axis-1), d(axis)*..]; axis in [-rank, rank]
//   squeeze           drops the axes named (each must be 1), or all of extent 1
//   unsqueeze         inserts axes of extent 1; axes count in the result
//   transpose         y[i_perm[0], ...] = x[i_0, ...]; perm empty: reversed
//   expand            x, shape: NumPy broadcasting of both (an extent of 1 in `shape` keeps x's)
//   tile              x, repeats: y[i] = x[i mod extent] on each axis
//   concat            inputs in sequence along `axis`
//   split             pieces along `axis`: `split` sizes, or `num_outputs` pieces of
//                     ceil(extent / num_outputs) of which the last may be smaller
//   slice             x, starts, ends, axes, steps: Python slices; negatives count from the end,
//                     values beyond the extent are cut
//   pad               x, pads (begins, then ends), value, axes. constant: `value`; edge: nearest
//                     element; reflect: mirrored without repeating the edge; wrap: periodic.
//                     Negative pads cut. reflect of an extent of 1, and reflect, edge or wrap of
//                     an empty axis, are refused. reflect reaches as far as asked: it is periodic
//                     with 2*(extent-1). Mixed signs: cut first, then fill
//   depth_to_space    [N,C,H,W] -> [N,C/b^2,H*b,W*b], DCR (depth, column, row) or CRD
//   space_to_depth    its inverse, with the same two modes
//   reverse_sequence  along time_axis the first sequence_lens[batch] elements, reversed
//   trilu             the upper or lower triangle of the last two axes, shifted by k; others +0
//
// Sources: ONNX operators at opset 23; NumPy manual (numpy.pad, broadcasting).
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct ReshapeParams {
  Ints shape;  // where input 1 is not given
  bool allowzero = false;
  template <class V>
  void visit(V& v) {
    v("shape", shape);
    v("allowzero", allowzero);
  }
};

struct AxisParams {
  std::int64_t axis = 0;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
  }
};

struct FlattenParams {
  std::int64_t axis = 1;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
  }
};

struct AxesParams {
  Ints axes;  // where input 1 is not given
  template <class V>
  void visit(V& v) {
    v("axes", axes);
  }
};

struct TransposeParams {
  Ints perm;
  template <class V>
  void visit(V& v) {
    v("perm", perm);
  }
};

// expand: `shape`; tile: `repeats`. Where input 1 is not given.
struct ExpandParams {
  Ints shape;
  template <class V>
  void visit(V& v) {
    v("shape", shape);
  }
};
struct TileParams {
  Ints repeats;
  template <class V>
  void visit(V& v) {
    v("repeats", repeats);
  }
};

struct SplitParams {
  std::int64_t axis = 0;
  Ints split;                    // where input 1 is not given
  std::int64_t num_outputs = 0;  // where no sizes are given at all
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("split", split);
    v("num_outputs", num_outputs);
  }
};

struct SliceParams {
  Ints starts, ends, axes, steps;  // where inputs 1 to 4 are not given
  template <class V>
  void visit(V& v) {
    v("starts", starts);
    v("ends", ends);
    v("axes", axes);
    v("steps", steps);
  }
};

enum class PadMode { constant, reflect, edge, wrap };
struct PadParams {
  PadMode mode = PadMode::constant;
  Ints pads;           // where input 1 is not given
  float value = 0.0F;  // where input 2 is not given
  Ints axes;           // where input 3 is not given; empty: all
  template <class V>
  void visit(V& v) {
    v("mode", mode, {"constant", "reflect", "edge", "wrap"});
    v("pads", pads);
    v("value", value);
    v("axes", axes);
  }
};

enum class DepthMode { dcr, crd };
struct DepthToSpaceParams {
  std::int64_t blocksize = 1;
  DepthMode mode = DepthMode::dcr;
  template <class V>
  void visit(V& v) {
    v("blocksize", blocksize);
    v("mode", mode, {"DCR", "CRD"});
  }
};
struct SpaceToDepthParams {
  std::int64_t blocksize = 1;
  DepthMode mode = DepthMode::dcr;
  template <class V>
  void visit(V& v) {
    v("blocksize", blocksize);
    v("mode", mode, {"DCR", "CRD"});
  }
};

struct ReverseSequenceParams {
  std::int64_t batch_axis = 1;
  std::int64_t time_axis = 0;
  template <class V>
  void visit(V& v) {
    v("batch_axis", batch_axis);
    v("time_axis", time_axis);
  }
};

struct TriluParams {
  bool upper = true;
  std::int64_t k = 0;  // where input 1 is not given
  template <class V>
  void visit(V& v) {
    v("upper", upper);
    v("k", k);
  }
};

// What is taken of each axis of x: elements begin, begin + step, ...: count of them.
struct SliceAxis {
  std::int64_t begin = 0, step = 1, count = 0;
};
std::array<SliceAxis, kMaxRank> slice_axes(const SliceParams& params, const InferInputs& in);

struct PadAxis {
  std::int64_t begin = 0, end = 0;
};
std::array<PadAxis, kMaxRank> pad_axes(const PadParams& params, const InferInputs& in);

// Extents along the axis, one for each output.
Ints split_sizes(const SplitParams& params, const InferInputs& in);

// perm with its default, checked.
Ints transpose_perm(const TransposeParams& params, const Shape& x);

std::span<const OpRow> layout_ops();

}  // namespace etalon
