// What several frameworks have as one operator and the engine as a few ops: slices put in place,
// places in a sorted row, pools of uneven windows, attention, sums over segments.
#pragma once

#include <optional>
#include <span>

#include "importers/formats/translate.h"

namespace etalon {

// An extent that is known before a run; a bad-input Error where it is free.
std::int64_t known_extent(const GraphBuilder& g, ValueId x, int axis);

// x, of which `updates` take the place of (or are folded into) the slices at `indices` along an
// axis: updates are x's extents with those of the indices in place of the axis.
ValueId scatter_slices(GraphBuilder& g, const std::string& name, ValueId x, int axis,
                       ValueId indices, ValueId updates, const std::string& reduction = "none");

// A slice as Python has it.
struct Cut {
  int axis = 0;
  std::int64_t start = 0, end = 0, step = 1;
};
// x with `updates` in place of the elements that the cuts take.
ValueId scatter_cuts(GraphBuilder& g, const std::string& name, ValueId x, ValueId updates,
                     std::span<const Cut> cuts);

// x with `updates` written (none) or folded (add, mul, max, min, mean) into its elements at
// `indices` of an axis; without their own values elements start from the first update.
ValueId scatter_folded(GraphBuilder& g, const std::string& name, ValueId x, int axis,
                       ValueId indices, ValueId updates, const std::string& fold, bool own);

// What leaves at the end of an axis enters at its front.
ValueId rolled(GraphBuilder& g, const std::string& name, ValueId x, int axis, std::int64_t by);

// How many elements of each sorted row lie before the values: those below, with `equal` those
// equal, too. Rows lie along the last axis; one row serves all values.
ValueId places_in_rows(GraphBuilder& g, const std::string& name, ValueId rows, ValueId values,
                       bool equal);

// The places of windows along an axis, [windows, width]: window i begins at i * step. A bad-input
// Error where none fits, or where there are more than `most` places to write down.
Tensor axis_windows(std::int64_t extent, std::int64_t width, std::int64_t step,
                    std::int64_t most = std::int64_t{1} << 20);

// Window i of an axis reaches from floor(i n / out) to ceil((i + 1) n / out).
ValueId adaptive_pool(GraphBuilder& g, const std::string& name, ValueId x, Ints out, bool average);

// softmax(q k' scale + mask) v, each step rounds; a mask of truth leaves out where it is false.
// Without a scale it is 1 / sqrt(width).
struct Attention {
  ValueId q = kAbsent, k = kAbsent, v = kAbsent, mask = kAbsent, scale = kAbsent;
  bool causal = false;
  // What the file says where types are known only in the run.
  Ints q_dims = {}, k_dims = {};
  std::optional<DType> type = {}, mask_type = {};
};
ValueId attention(GraphBuilder& g, const std::string& name, const Attention& a);

// Sums of the rows of each segment, [count, ...]; a segment without a row is `empty`, which
// broadcasts to a row, or zeros.
ValueId segment_sum(GraphBuilder& g, const std::string& name, ValueId rows, ValueId ids,
                    std::int64_t count, ValueId empty = kAbsent);
// The segment of each of n rows, from where segments begin.
ValueId segments_of(GraphBuilder& g, const std::string& name, ValueId offsets, std::int64_t n);

}  // namespace etalon
