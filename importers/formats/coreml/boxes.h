// What networks and ML programs do with boxes: regions cut out and resized, boxes chosen.
#pragma once

#include <string>
#include <vector>

#include "importers/formats/translate.h"

namespace etalon::coreml {

// How the points of an axis are laid over an interval of x elements, n of them.
enum class Sampling {
  strict_ends,  // from the first to the last; one point is the first
  ends,         // the same, but one point is the middle
  upsample,     // x / n apart, from the first
  roi_align,    // max(1, x - 1) / n apart, from half of that
};
enum class BoxForm { corners_height, corners_width, centre_height, centre_width };

struct CropResize {
  std::int64_t height = 1, width = 1;
  bool normalised = false;
  float scale = 1;
  BoxForm form = BoxForm::corners_height;
  Sampling sampling = Sampling::strict_ends;
};
// x [B,C,H,W], boxes [N,4], or [N,5] with the image first: [N,B,C,height,width], or [N,1,C,..].
ValueId crop_resize(GraphBuilder& g, const std::string& name, ValueId x, ValueId boxes,
                    const CropResize& how);

struct BoxChoice {
  ValueId overlap = kAbsent, least = kAbsent;  // one number each
  std::int64_t most = 0;
  bool by_class = false;
};
// boxes [B,N,4] as (x, y, width, height), scores [B,N,C]: boxes [B,most,4] and scores [B,most,C] of
// those that stay, by falling score and zeros behind, their indices [B,most] (i64, -1 behind), how
// many [B] (i64).
std::vector<ValueId> choose_boxes(GraphBuilder& g, const std::string& name, ValueId boxes,
                                  ValueId scores, const BoxChoice& how);

}  // namespace etalon::coreml
