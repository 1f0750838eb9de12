// TensorFlow's bicubic resizing, whose weights come from a table of 1024 steps.
#pragma once

#include "importers/formats/translate.h"

namespace etalon::tf {

struct Bicubic {
  std::int64_t height = 0, width = 0;  // of the result
  bool align_corners = false;
  // Coordinates from the middle of pixels, the kernel of -0.5 and weights inside the image alone;
  // else the kernel of -0.75, whose pixels at the border count again.
  bool half_pixel_centers = false;
};
// x [N,H,W,C], whose H and W are known.
ValueId bicubic(GraphBuilder& g, const std::string& name, ValueId x, const Bicubic& how);

}  // namespace etalon::tf
