#include "engine/ops/detection.h"

namespace etalon {
namespace {

using Types = std::vector<TensorType>;
using Names = std::vector<std::string_view>;

constexpr std::int64_t kMostDetections = 1 << 16;

Types infer_tflite_detection(const Params& params, const InferInputs& in) {
  const auto& p = params.as<TfliteDetectionParams>();
  for (std::size_t i = 0; i < 3; ++i)
    if (in.dtype(i) != DType::f32)
      throw bad_input("input {} must be f32, got {}", i, name(in.dtype(i)));
  const Shape &codes = in.shape(0), &scores = in.shape(1), &anchors = in.shape(2);
  if (codes.rank() != 3 || codes[0] != 1 || codes[2] < 4 || scores.rank() != 3 || scores[0] != 1 ||
      scores[1] != codes[1] || anchors != Shape{codes[1], 4})
    throw bad_input("encodings {}, scores {} and anchors {} must be [1,N,4], [1,N,C] and [N,4]",
                    to_string(codes), to_string(scores), to_string(anchors));
  if (p.num_classes < 1 || p.num_classes > scores[2] || scores[2] - p.num_classes > 1)
    throw bad_input("{} classes of {} scores", p.num_classes, scores[2]);
  if (p.max_detections < 0 || p.max_detections > kMostDetections ||
      p.max_classes_per_detection < 1 || p.max_classes_per_detection > kMostDetections ||
      p.max_detections * p.max_classes_per_detection > kMostDetections)
    throw bad_input("{} detections of {} classes; at most {} in all", p.max_detections,
                    p.max_classes_per_detection, kMostDetections);
  if (p.regular && p.detections_per_class < 1)
    throw bad_input("detections_per_class is {}", p.detections_per_class);
  if (!(p.overlap_threshold > 0) || p.overlap_threshold > 1)
    throw bad_input("overlap_threshold is {}; above 0 and at most 1", p.overlap_threshold);
  const std::int64_t most = p.max_detections * p.max_classes_per_detection;
  return {{DType::f32, Shape{1, most, 4}},
          {DType::f32, Shape{1, most}},
          {DType::f32, Shape{1, most}},
          {DType::f32, Shape{1}}};
}

}  // namespace

std::span<const OpRow> detection_ops() {
  static const OpRow rows[] = {
      {.name = "tflite_detection",
       .summary = "Boxes from a detector's encodings, without those that others cover.",
       .nature = OpNature::discrete,
       .min_inputs = 3,
       .max_inputs = 3,
       .min_outputs = 4,
       .max_outputs = 4,
       .per_sample = false,
       .defaults = [] { return Params(TfliteDetectionParams{}); },
       .infer = infer_tflite_detection,
       .input_names = [] { return Names{"encodings", "scores", "anchors"}; },
       .output_names = [] { return Names{"boxes", "classes", "scores", "count"}; }},
  };
  return rows;
}

}  // namespace etalon
