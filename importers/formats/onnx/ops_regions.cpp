// Regions of images: RoiAlign.
#include "engine/core/error.h"
#include "importers/formats/onnx/body.h"
#include "importers/formats/regions.h"

namespace etalon::onnx_format {
namespace {

// `max` takes the largest of the four weighted pixels of any sample, as ONNX Runtime does.
void roi_align_of(OnnxNode& n) {
  const std::string mode = n.text("mode", "avg");
  std::string way =
      n.opset() < 16 ? "output_half_pixel" : n.text("coordinate_transformation_mode", "half_pixel");
  if (mode != "avg" && mode != "max")
    throw bad_input("mode is '{}', expected avg or max", printable(mode));
  if (way != "half_pixel" && way != "output_half_pixel")
    throw bad_input("coordinate_transformation_mode is '{}', which ONNX does not know",
                    printable(way));
  RegionAlign how{.rows = n.integer("output_height", 1),
                  .columns = n.integer("output_width", 1),
                  .samples = n.integer("sampling_ratio", 0),
                  .scale = n.number("spatial_scale", 1)};
  if (way == "half_pixel") {
    how.behind = -0.5F;
    how.least_one = false;
  }
  if (mode == "max") how.pool = RegionAlign::Pool::largest_part;
  const Steps steps{[&n](std::string_view op, std::vector<ValueId> in, const Fields& f) {
                      return n.step(op, f, std::move(in));
                    },
                    [&n](Tensor t) { return n.constant_value("number", std::move(t)); }};
  n.give(0, roi_align(steps, n.required(0), n.required(1), n.required(2), how));
  n.note("RoiAlign is imported as its gathers and weights");
}

constexpr TranslatorRow kRows[] = {{"RoiAlign", roi_align_of}};

}  // namespace

std::span<const TranslatorRow> region_family() { return kRows; }

}  // namespace etalon::onnx_format
