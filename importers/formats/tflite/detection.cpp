// TFLite_Detection_PostProcess: the custom operator that ends detectors (engine/ops/detection.h).
// Its parameters are a FlexBuffer map; bytes are made real numbers first, as its kernel does.
#include <cmath>

#include "engine/core/error.h"
#include "importers/containers/flexbuffers.h"
#include "importers/formats/tflite/quantised.h"

namespace etalon::tflite {
namespace {

ValueId real(const Quantised& q, std::size_t i) {
  const TensorInfo& t = q.input(i);
  if (t.dtype == DType::f32) return q.in[i];
  if (t.dtype != DType::u8)
    throw bad_input("input {} of type {}; the operator knows f32 and u8", i, name(t.dtype));
  const std::string base = fmt::format("{}/real{}", q.name, i);
  return q.g.op(
      "dequantize_linear", base,
      {q.in[i], q.g.constant(base + "/scale", Tensor::of<float>({}, {t.quantisation.scale()})),
       q.g.constant(base + "/zero", Tensor::of<std::uint8_t>(
                                        {}, {static_cast<std::uint8_t>(t.quantisation.zero())}))});
}

}  // namespace

std::vector<ValueId> detection(const Quantised& q) {
  if (q.op.inputs.size() != 3)
    throw bad_input("{} inputs, where boxes, scores and anchors are three", q.op.inputs.size());
  if ((q.input(0).dtype == DType::u8) != (q.input(2).dtype == DType::u8))
    throw bad_input("boxes of {} with anchors of {}", name(q.input(0).dtype),
                    name(q.input(2).dtype));
  const auto numbers = flexbuffer_numbers(q.op.custom_options.bytes);
  const auto number = [&](std::string_view key, double otherwise) {
    const auto at = numbers.find(key);
    const double v = at == numbers.end() ? otherwise : at->second;
    if (!(std::abs(v) < 0x1p31)) throw bad_input("{} is {}", key, v);
    return v;
  };
  const auto whole = [&](std::string_view key, double otherwise) {
    return static_cast<std::int64_t>(number(key, otherwise));
  };
  const auto real_number = [&](std::string_view key) { return static_cast<float>(number(key, 0)); };
  std::vector<ValueId> in;
  for (std::size_t i = 0; i < 3; ++i) in.push_back(real(q, i));
  const Fields fields{{"max_detections", whole("max_detections", 0)},
                      {"max_classes_per_detection", whole("max_classes_per_detection", 0)},
                      {"detections_per_class", whole("detections_per_class", 100)},
                      {"num_classes", whole("num_classes", 0)},
                      {"regular", number("use_regular_nms", 0) != 0},
                      {"score_threshold", real_number("nms_score_threshold")},
                      {"overlap_threshold", real_number("nms_iou_threshold")},
                      {"y_scale", real_number("y_scale")},
                      {"x_scale", real_number("x_scale")},
                      {"h_scale", real_number("h_scale")},
                      {"w_scale", real_number("w_scale")}};
  q.g.note(
      "places behind the boxes that were found are 0; TensorFlow Lite leaves them as they were "
      "where boxes are not selected class by class");
  return q.g.nodes("tflite_detection", q.name, in, make_params(get_op("tflite_detection"), fields),
                   4);
}

}  // namespace etalon::tflite
