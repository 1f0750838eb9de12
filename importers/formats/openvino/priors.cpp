// The priors of SSD's detectors: boxes around each point of a plane, as shares of the image, and a
// variance for each of their numbers. They hang on extents alone and become constants.
// Source: the public description of PriorBox-1, PriorBox-8 and PriorBoxClustered-1.
#include "importers/formats/openvino/priors.h"

#include <algorithm>
#include <cmath>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/formats/boxes.h"

namespace etalon::openvino {
namespace {

struct Plane {
  std::int64_t h, w;
};

Plane plane_at(const Layer& l, std::size_t i) {
  const Ints v = l.constant(i);
  if (v.size() != 2 || v[0] < 1 || v[1] < 1 || v[0] > kMostBoxes || v[1] > kMostBoxes / v[0])
    throw bad_input("boxes on a plane that is not of two extents");
  return {v[0], v[1]};
}

// Corners (x, y, x, y) in shares of the image.
class Boxes {
 public:
  Boxes(Plane image, std::int64_t count) : w_(1.0F / at(image.w)), h_(1.0F / at(image.h)) {
    if (count < 1 || count > kMostBoxes) throw bad_input("{} boxes", count);
    MemoryBudget::charge(static_cast<std::size_t>(count) * 8 * sizeof(float));
    values_.reserve(static_cast<std::size_t>(count) * 8);
  }
  static float at(std::int64_t v) { return static_cast<float>(v); }
  // About a centre, by half its extents.
  void add(float x, float y, float half_w, float half_h, bool held) {
    float box[] = {(x - half_w) * w_, (y - half_h) * h_, (x + half_w) * w_, (y + half_h) * h_};
    if (held)
      for (int i = 0; i < 4; ++i) box[i] = i < 2 ? std::max(box[i], 0.0F) : std::min(box[i], 1.0F);
    values_.insert(values_.end(), box, box + 4);
  }
  // [2, 4 * boxes], with the variances.
  ValueId finish(const Layer& l, bool clip) {
    if (clip)
      for (float& v : values_) v = std::clamp(v, 0.0F, 1.0F);
    std::vector<float> variance = floats(l, "variance");
    if (variance.empty()) variance = {0.1F};
    if (variance.size() != 1 && variance.size() != 4)
      throw bad_input("{} variances", variance.size());
    const std::size_t n = values_.size();
    for (std::size_t i = 0; i < n; ++i) values_.push_back(variance[i % variance.size()]);
    return LayerParts{l.g, l.name}.floats("boxes", values_, Shape{2, static_cast<std::int64_t>(n)});
  }

 private:
  float w_, h_;
  std::vector<float> values_;
};

// 1, then what the file names, each with its inverse where it flips; none twice.
std::vector<float> ratios_of(const Layer& l) {
  std::vector<float> out{1};
  const bool flip = l.flag("flip", false);
  for (const float r : floats(l, "aspect_ratio")) {
    if (!(r > 0)) throw bad_input("an aspect_ratio of {}", r);
    if (std::ranges::any_of(out, [&](float have) { return std::fabs(r - have) < 1e-6F; })) continue;
    out.push_back(r);
    if (flip) out.push_back(1.0F / r);
  }
  return out;
}

struct Prior {
  std::vector<float> least, most, ratios, fixed, fixed_ratio, density;
  bool all = true, largest_first = true;
};

// Boxes of a fixed size, several of them about a point where it is dense.
void add_fixed(Boxes& boxes, const Prior& p, float x, float y) {
  for (std::size_t s = 0; s < p.fixed.size(); ++s) {
    const float side = std::trunc(p.fixed[s]), half = side * 0.5F;
    const auto dense = static_cast<std::int64_t>(s < p.density.size() ? p.density[s] : 1.0F);
    const float step = std::trunc(side / static_cast<float>(dense));
    const auto add = [&](float half_w, float half_h) {
      for (std::int64_t r = 0; r < dense; ++r)
        for (std::int64_t c = 0; c < dense; ++c) {
          const float first = std::trunc(side / 2);
          boxes.add(x - first + step / 2.0F + static_cast<float>(c) * step,
                    y - first + step / 2.0F + static_cast<float>(r) * step, half_w, half_h, true);
        }
    };
    const auto of_ratio = [&](float r) {
      add(side * 0.5F * std::sqrt(r), side * 0.5F / std::sqrt(r));
    };
    if (!p.fixed_ratio.empty()) {
      for (const float r : p.fixed_ratio) of_ratio(r);
      continue;
    }
    if (!p.density.empty()) add(half, half);
    for (const float r : p.ratios)
      if (std::fabs(r - 1) >= 1e-6F) of_ratio(r);
  }
}

void add_sized(Boxes& boxes, const Prior& p, float x, float y) {
  for (std::size_t k = 0; k < p.least.size(); ++k) {
    const auto square = [&](float side) { boxes.add(x, y, side * 0.5F, side * 0.5F, false); };
    const auto largest = [&] {
      if (k < p.most.size()) square(std::sqrt(p.least[k] * p.most[k]));
    };
    const auto ratios = [&] {
      if (!p.all && k + 1 != p.least.size()) return;
      const float side = p.least[p.all ? k : 0];
      for (const float r : p.ratios)
        if (std::fabs(r - 1) >= 1e-6F)
          boxes.add(x, y, side * 0.5F * std::sqrt(r), side * 0.5F / std::sqrt(r), false);
    };
    square(p.least[k]);
    if (p.largest_first) largest();
    ratios();
    if (!p.largest_first) largest();
  }
}

// An upper bound of the boxes at a point.
std::int64_t boxes_of(const Prior& p) {
  std::int64_t dense = 1;
  for (const float d : p.density) {
    if (!(d >= 1) || d > 256) throw bad_input("a density of {}", d);
    dense = std::max(dense, static_cast<std::int64_t>(d));
  }
  const auto count = [](const std::vector<float>& v) {
    return static_cast<std::int64_t>(v.size());
  };
  const std::int64_t sized = count(p.least) * (1 + count(p.ratios)) + count(p.most);
  return checked_add(sized, checked_mul(checked_mul(count(p.fixed), dense * dense),
                                        1 + count(p.ratios) + count(p.fixed_ratio)));
}

}  // namespace

ValueId prior_box(const Layer& l) {
  const Plane plane = plane_at(l, 0), image = plane_at(l, 1);
  Prior p{.least = floats(l, "min_size"),
          .most = floats(l, "max_size"),
          .ratios = ratios_of(l),
          .fixed = floats(l, "fixed_size"),
          .fixed_ratio = floats(l, "fixed_ratio"),
          .density = floats(l, "density"),
          .all = l.flag("scale_all_sizes", true),
          .largest_first = l.flag("min_max_aspect_ratios_order", true)};
  if (!p.fixed_ratio.empty() && std::ranges::any_of(p.density, [](float d) { return d != 1; }))
    throw bad_input("a PriorBox that is dense and has a fixed_ratio");
  float step = l.number("step", 0);
  const float offset = l.number("offset", 0), w = Boxes::at(image.w), h = Boxes::at(image.h);
  if (!p.all && !p.most.empty())
    throw bad_input("a PriorBox with a max_size whose sizes do not go with all ratios");
  if (!p.all) {  // sizes are shares of the height
    step = step == -1 ? h / Boxes::at(plane.h) : step * h;
    for (float& v : p.least) v *= h;
  }
  const bool whole = step == 0;
  const float step_x = whole ? w / Boxes::at(plane.w) : step,
              step_y = whole ? h / Boxes::at(plane.h) : step;
  Boxes boxes(image, checked_mul(boxes_of(p), plane.h * plane.w));
  for (std::int64_t i = 0; i < plane.h; ++i)
    for (std::int64_t j = 0; j < plane.w; ++j) {
      const float from = whole ? 0.5F : offset;
      const float x = (Boxes::at(j) + from) * step_x, y = (Boxes::at(i) + from) * step_y;
      add_fixed(boxes, p, x, y);
      add_sized(boxes, p, x, y);
    }
  return boxes.finish(l, l.flag("clip", false));
}

ValueId prior_box_clustered(const Layer& l) {
  const Plane plane = plane_at(l, 0), image = plane_at(l, 1);
  const std::vector<float> widths = floats(l, "width"), heights = floats(l, "height");
  if (widths.empty() || widths.size() != heights.size())
    throw bad_input("boxes of {} widths and {} heights", widths.size(), heights.size());
  const float step = l.number("step", 0), offset = l.number("offset", 0);
  float step_x = l.number("step_w", 0), step_y = l.number("step_h", 0);
  if (step_x == 0) step_x = step;
  if (step_y == 0) step_y = step;
  if (step_x == 0 && step_y == 0) {
    step_x = Boxes::at(image.w) / Boxes::at(plane.w);
    step_y = Boxes::at(image.h) / Boxes::at(plane.h);
  }
  Boxes boxes(image, checked_mul(static_cast<std::int64_t>(widths.size()), plane.h * plane.w));
  for (std::int64_t i = 0; i < plane.h; ++i)
    for (std::int64_t j = 0; j < plane.w; ++j)
      for (std::size_t k = 0; k < widths.size(); ++k)
        boxes.add((Boxes::at(j) + offset) * step_x, (Boxes::at(i) + offset) * step_y,
                  widths[k] / 2.0F, heights[k] / 2.0F, false);
  return boxes.finish(l, l.flag("clip", false));
}

}  // namespace etalon::openvino
