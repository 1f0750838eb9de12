// Boxes of SSD's detectors that hang on extents alone.
#pragma once

#include <vector>

#include "importers/formats/openvino/layer.h"

namespace etalon::openvino {

// A list of numbers, "1.5, 2".
std::vector<float> floats(const Layer& layer, std::string_view key);

ValueId prior_box(const Layer& layer);
ValueId prior_box_clustered(const Layer& layer);

}  // namespace etalon::openvino
