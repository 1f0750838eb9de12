// Ops that choose some of many: how much they give depends on the data.
//
//   non_max_suppression  boxes [B,N,4], scores [B,C,N], most (a number of boxes; not given: none),
//                        overlap (not given: 0), least score (not given: no limit): for each image
//                        and class the boxes by falling score, of equals the lower index first,
//                        each kept that overlaps none kept before it by more than `overlap`, until
//                        `most` are kept; as rows (image, class, box) of i64, images and classes
//                        ascending. A score counts that is a number and, where there is a limit,
//                        above it.
//                        Boxes are two opposite corners (y, x, y, x), or with center_point_box
//                        (x, y, width, height). Two overlap by i/(a + b - i), a and b their areas,
//                        i that of what they share: each operation rounded to f32, as the
//                        frameworks do, under every contract, for a decision has no error to be
//                        measured. Boxes without an area overlap nothing; so does NaN
//   unique               the different elements of x, or with an axis the different slices: values;
//                        where each is first met; for each element or slice which value it is; how
//                        often each occurs (i64). sorted: ascending, NaN last, slices compared
//                        element by element; else as they are met. +0 equals -0 and any NaN any
//                        other; of equals the first one's bits are given. The axis is negative from
//                        the end; kFlat (the default) takes x as one row
//
// Errors: other shapes, an axis outside x, more memory than the inputs' sizes explain (none).
// Sources: ONNX operators at opset 23 (NonMaxSuppression-11, Unique-11); NumPy manual (unique).
#pragma once

#include <array>
#include <optional>

#include "engine/ops/op.h"

namespace etalon {

struct NonMaxSuppressionParams {
  bool center_point_box = false;
  template <class V>
  void visit(V& v) {
    v("center_point_box", center_point_box);
  }
};

struct UniqueParams {
  static constexpr std::int64_t kFlat = 1 << 20;
  std::int64_t axis = kFlat;
  bool sorted = true;
  template <class V>
  void visit(V& v) {
    v("axis", axis);
    v("sorted", sorted);
  }
};

// Inputs of non_max_suppression; nullptr where not given.
struct BoxInputs {
  const Tensor* boxes = nullptr;
  const Tensor* scores = nullptr;
  const Tensor* most = nullptr;
  const Tensor* overlap = nullptr;
  const Tensor* least = nullptr;
};
using SelectedBox = std::array<std::int64_t, 3>;
std::vector<SelectedBox> select_boxes(const NonMaxSuppressionParams& params,
                                      const BoxInputs& inputs);

struct UniqueSlices {
  std::vector<std::int64_t> first, inverse, counts;
};
UniqueSlices unique_slices(const UniqueParams& params, const Tensor& x);
// x as [outer, slices, inner] for the axis, [1, elements, 1] without one.
std::array<std::int64_t, 3> unique_view(const UniqueParams& params, const Shape& x);

std::span<const OpRow> selection_ops();

}  // namespace etalon
