// Boxes of a detector: TensorFlow Lite's custom operator TFLite_Detection_PostProcess.
//
//   tflite_detection  encodings f32 [1,N,4 or more], scores f32 [1,N,C], anchors f32 [N,4]; boxes
//                     [1,M,4], classes [1,M], scores [1,M], count [1], all f32, M =
//                     max_detections * max_classes_per_detection.
//   Box i: with encoding (y, x, h, w) and anchor (ay, ax, ah, aw), in f64 and rounded to f32 once,
//   cy = y / y_scale * ah + ay, cx likewise, hh = 0.5 * exp(h / h_scale) * ah, hw likewise by aw;
//   in f32 it reaches from (cy - hh, cx - hw) to (cy + hh, cx + hw).
//
//   Selection by scores: those of at least score_threshold by falling score, of equals the lower
//   index first; each is kept that shares no more than overlap_threshold with any kept before it,
//   until the number wanted is kept. Shared is i / (a + b - i) of areas in f32; 0 where an area is
//   not above 0.
//
//   C is num_classes, or one more: then the first is background, and classes count from the next.
//
//   regular (class by class): of each class at most detections_per_class, and max_detections, are
//   selected; all classes together the best max_detections, of equals the earlier class's first
//   (where TensorFlow Lite runs on several threads, that hangs on which is done first).
//
//   Otherwise: by each box's best score at most max_detections boxes are selected; each gives its
//   best max_classes_per_detection classes (at most num_classes) in order. Of one, the first of the
//   largest; of m of n, the order of equals is that of a heap with the worst on top: built of the
//   first m from the last parent down, then each later class that is better than the top takes its
//   place, then, m - 1 times, the top goes behind the rest, whose last one takes its place. To take
//   a place: it sinks to the bottom along the worse of two children (of equals the right one), and
//   what is put there rises while its parent is better.
//
//   Places behind those filled are 0; TensorFlow Lite leaves them as they were, but for those of
//   `regular` up to max_detections. count: the boxes selected.
//
// A box whose corners are the other way round is refused, as the reference does. The contract has
// no say: a decision has no error to be measured.
// Source: tensorflow/lite/kernels/detection_postprocess.cc, whose std::partial_sort leaves the
// order of equals open: it is libstdc++'s, with which its packages are built.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct TfliteDetectionParams {
  std::int64_t max_detections = 10, max_classes_per_detection = 1, detections_per_class = 100;
  std::int64_t num_classes = 1;
  bool regular = false;
  float score_threshold = 0, overlap_threshold = 0.5F;
  float y_scale = 10, x_scale = 10, h_scale = 5, w_scale = 5;
  template <class V>
  void visit(V& v) {
    v("max_detections", max_detections);
    v("max_classes_per_detection", max_classes_per_detection);
    v("detections_per_class", detections_per_class);
    v("num_classes", num_classes);
    v("regular", regular);
    v("score_threshold", score_threshold);
    v("overlap_threshold", overlap_threshold);
    v("y_scale", y_scale);
    v("x_scale", x_scale);
    v("h_scale", h_scale);
    v("w_scale", w_scale);
  }
};

std::span<const OpRow> detection_ops();

}  // namespace etalon
