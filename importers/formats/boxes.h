// The parts of SSD's detectors (Liu and others, arXiv 1512.02325) that several formats share, and
// names for the many nodes that one of their layers becomes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "importers/formats/translate.h"

namespace etalon {

struct LayerParts {
  GraphBuilder& g;
  std::string of;  // the layer

  std::string name(std::string_view role) const;
  ValueId op(std::string_view op, std::string_view role, const std::vector<ValueId>& in,
             const Fields& f = {}) const {
    return g.op(op, name(role), in, f);
  }
  ValueId scalar(std::string_view role, float v) const {
    return g.constant(name(role), scalar_f32(v));
  }
  ValueId ints(std::string_view role, const Ints& v) const {
    return g.constant(name(role), ints_tensor(v));
  }
  ValueId floats(std::string_view role, const std::vector<float>& v, const Shape& shape) const;
  // [begin, end) of an axis.
  ValueId cut(std::string_view role, ValueId x, std::int64_t axis, std::int64_t begin,
              std::int64_t end) const;
};

// Height and width of an image [N,C,H,W], which the file has to say; more than 2^22 places are
// refused.
constexpr std::int64_t kMostBoxes = 1 << 22;
std::pair<std::int64_t, std::int64_t> plane_of(const GraphBuilder& g, ValueId image);

// Corners (x, y, x, y) along an axis of boxes about `centre` of `extent`, both (x, y).
ValueId box_corners(const LayerParts& p, ValueId centre, ValueId extent, std::int64_t axis);

// Boxes [N,P,4] by corners, of priors [N or 1,P,4] by corners and offsets [N,P,4]: the centre moves
// by offset * variance * extent, the extent grows by exp(offset * variance). Variances lie along
// their last axis (4), whose rank may be less.
ValueId decoded_boxes(const LayerParts& p, ValueId priors, ValueId variances, ValueId offsets);

// Of scores [N,C,P] the `most` highest of each class; the others become the lowest number.
ValueId highest_scores(const LayerParts& p, ValueId scores, std::int64_t most);

// Rows (image, class, box) i64 of what is kept class by class, by falling score: scores above
// `least`, each sharing no more than `overlap` with those kept before it.
ValueId kept_boxes(const LayerParts& p, ValueId boxes, ValueId scores, float overlap, float least);

// The rows before which fewer than `keep` of the same image stand by score (of equals the first);
// scores [n], images [n,1].
ValueId best_of_each_image(const LayerParts& p, ValueId rows, ValueId scores, ValueId images,
                           std::int64_t keep);

}  // namespace etalon
