// Regions of images, resampled to cells.
#include "importers/formats/regions.h"

#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"

namespace etalon::openvino {
namespace {

Steps steps_of(const Layer& l) {
  return {[&l](std::string_view op, const std::vector<ValueId>& in, const Fields& f) {
            return l.g.op(op, fmt::format("{}.{}", l.name, op), in, f);
          },
          [&l](Tensor t) { return l.g.constant(l.name + ".number", std::move(t)); }};
}

ValueId align(const Layer& l) {
  const std::string mode = l.text("mode", "avg"), way = l.text("aligned_mode", "asymmetric");
  RegionAlign how{.rows = l.integer("pooled_h", 1),
                  .columns = l.integer("pooled_w", 1),
                  .samples = l.integer("sampling_ratio", 0),
                  .scale = l.number("spatial_scale", 1)};
  if (mode != "avg" && mode != "max") throw bad_input("ROIAlign by {}", printable(mode));
  if (mode == "max") how.pool = RegionAlign::Pool::largest;
  if (way == "half_pixel" || way == "half_pixel_for_nn") {
    how.behind = -0.5F;
    how.before = way == "half_pixel" ? 0.5F : 0;
    how.least_one = false;
  } else if (way != "asymmetric") {
    throw bad_input("ROIAlign's aligned_mode {}", printable(way));
  }
  l.g.note("ROIAlign is its gathers and weights, each step rounds");
  const ValueId y = roi_align(steps_of(l), l.input(0), l.input(1), l.integers_of(2), how);
  // Its plugin begins the search for the largest with 0.
  return mode == "max" ? l.g.op("relu", l.name, {y}) : y;
}

}  // namespace

std::vector<ValueId> translate_regions(const Layer& l) {
  if (l.type == "ROIAlign") return {align(l)};
  return {};
}

}  // namespace etalon::openvino
