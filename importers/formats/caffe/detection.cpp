// SSD's layers, of the branch of Caffe that trains it: priors, and the detections they end in.
// Source: Liu and others, arXiv 1512.02325; the layers' public definitions.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/memory_budget.h"
#include "importers/formats/boxes.h"
#include "importers/formats/caffe/translator.h"

namespace etalon::caffe {
namespace {

// 1, then what the file names, each with its inverse where it flips; none twice.
std::vector<float> ratios_of(const PbMessage& p) {
  std::vector<float> out{1};
  const bool flip = p.flag("flip", true);
  for (const float r : p.numbers("aspect_ratio")) {
    if (!(r > 0)) throw bad_input("an aspect_ratio of {}", r);
    if (std::ranges::any_of(out, [&](float have) { return std::fabs(r - have) < 1e-6F; })) continue;
    out.push_back(r);
    if (flip) out.push_back(static_cast<float>(1.0 / static_cast<double>(r)));
  }
  return out;
}

struct Extent {
  float w, h;
};

// Sizes are cut to whole pixels, as Caffe cuts them.
std::vector<Extent> extents_of(const PbMessage& p) {
  const std::vector<float> least = p.numbers("min_size"), most = p.numbers("max_size");
  if (least.empty() || (!most.empty() && most.size() != least.size()))
    throw bad_input("{} min_size and {} max_size", least.size(), most.size());
  std::vector<Extent> out;
  const auto whole = [](float v) {
    if (!(v >= 1) || v > 1 << 24) throw bad_input("boxes of {} pixels", v);
    return static_cast<double>(static_cast<std::int64_t>(v));
  };
  const std::vector<float> ratios = ratios_of(p);
  for (std::size_t k = 0; k < least.size(); ++k) {
    const double side = whole(least[k]);
    out.push_back({static_cast<float>(side), static_cast<float>(side)});
    if (!most.empty()) {
      const auto larger = static_cast<float>(std::sqrt(side * whole(most[k])));
      out.push_back({larger, larger});
    }
    for (const float r : ratios) {
      if (std::fabs(r - 1) < 1e-6F) continue;
      const double root = std::sqrt(static_cast<double>(r));
      out.push_back({static_cast<float>(side * root), static_cast<float>(side / root)});
    }
  }
  return out;
}

}  // namespace

// [1, 2, 4 * boxes]: corners in shares of the image, then a variance for each.
void Translator::prior_box() {
  const PbMessage p = l_->params.message("prior_box_param");
  const auto [h, w] = plane_of(g, x());
  std::int64_t image_h = p.integer("img_h", p.integer("img_size", 0)),
               image_w = p.integer("img_w", p.integer("img_size", 0));
  if (image_h == 0 || image_w == 0) std::tie(image_h, image_w) = plane_of(g, x(1));
  float step_h = p.number("step_h", p.number("step", 0)),
        step_w = p.number("step_w", p.number("step", 0));
  if (image_h < 1 || image_w < 1) throw bad_input("an image of {} x {}", image_h, image_w);
  if (step_h == 0 || step_w == 0) {
    step_h = static_cast<float>(image_h) / static_cast<float>(h);
    step_w = static_cast<float>(image_w) / static_cast<float>(w);
  }
  const float offset = p.number("offset", 0.5F);
  const bool clip = p.flag("clip");
  std::vector<float> variance = p.numbers("variance");
  if (variance.empty()) variance = {0.1F};
  if (variance.size() == 1) variance.resize(4, variance[0]);
  if (variance.size() != 4) throw bad_input("{} variances", variance.size());
  const std::vector<Extent> extents = extents_of(p);
  if (static_cast<std::int64_t>(extents.size()) > kMostBoxes / (h * w))
    throw bad_input("{} boxes at each of {} x {} places", extents.size(), h, w);
  std::vector<float> out;
  const std::size_t count = extents.size() * static_cast<std::size_t>(8 * h * w);
  MemoryBudget::charge(count * sizeof(float));
  out.reserve(count);
  for (std::int64_t i = 0; i < h; ++i)
    for (std::int64_t j = 0; j < w; ++j) {
      const double cx = static_cast<double>((static_cast<float>(j) + offset) * step_w),
                   cy = static_cast<double>((static_cast<float>(i) + offset) * step_h);
      for (const Extent& e : extents) {
        const double half_w = static_cast<double>(e.w) / 2, half_h = static_cast<double>(e.h) / 2;
        for (const double v : {(cx - half_w) / static_cast<double>(image_w),
                               (cy - half_h) / static_cast<double>(image_h),
                               (cx + half_w) / static_cast<double>(image_w),
                               (cy + half_h) / static_cast<double>(image_h)}) {
          const auto f = static_cast<float>(v);
          out.push_back(clip ? std::clamp(f, 0.0F, 1.0F) : f);
        }
      }
    }
  const std::size_t n = out.size();
  for (std::size_t i = 0; i < n; ++i) out.push_back(variance[i % 4]);
  g.note("PriorBox: boxes of whole pixels, as the branch of Caffe for SSD cuts them");
  top(LayerParts{g, l_->name}.floats("boxes", out, Shape{1, 2, static_cast<std::int64_t>(n)}));
}

// [1, 1, rows, 7]: image, class, score, corners; of each image its classes in order, by falling
// score. Where nothing is found there are no rows, and Caffe has one of -1 for each image.
void Translator::detection_output() {
  const PbMessage p = l_->params.message("detection_output_param");
  const PbMessage nms = p.message("nms_param");
  const std::int64_t classes = p.integer("num_classes"), top_k = nms.integer("top_k", -1),
                     keep = p.integer("keep_top_k", -1),
                     background = p.integer("background_label_id", 0);
  const LayerParts n{g, l_->name};
  if (!p.flag("share_location", true)) throw bad_input("boxes of their own for each class");
  if (p.text("code_type", "CORNER") != "CENTER_SIZE")
    throw bad_input("code_type {}; only CENTER_SIZE is read", p.text("code_type", "CORNER"));
  if (nms.number("eta", 1) != 1) throw bad_input("eta {} of the suppression", nms.number("eta", 1));
  if (g.rank(x(2)) != 3 || g.dims(x(2))[1] != 2)
    throw bad_input("priors of {}", to_string(g.shape(x(2))));
  const std::int64_t boxes = g.dims(x(2))[2] / 4;
  if (classes < 1 || classes > 1 << 20 || boxes < 1)
    throw bad_input("{} boxes of {} classes", boxes, classes);
  const auto of_each = [&](const char* role, ValueId v, std::int64_t width) {
    return g.reshape(n.name(role), v, {0, boxes, width});
  };
  const ValueId prior = of_each("prior", n.cut("first", x(2), 1, 0, 1), 4);
  ValueId variance = of_each("variance", n.cut("second", x(2), 1, 1, 2), 4);
  if (p.flag("variance_encoded_in_target")) variance = n.floats("one", {1, 1, 1, 1}, Shape{4});
  const ValueId box = decoded_boxes(n, prior, variance, of_each("offsets", x(0), 4));
  ValueId score = g.transpose(n.name("by_class"), of_each("by_prior", x(1), classes), {0, 2, 1});
  const float lowest = std::numeric_limits<float>::lowest();
  if (background >= 0 && background < classes) {  // a class of which nothing is kept
    std::vector<float> none(static_cast<std::size_t>(classes), 0);
    none[static_cast<std::size_t>(background)] = 1;
    const ValueId is =
        n.op("greater", "is_background",
             {n.floats("background", none, Shape{1, classes, 1}), n.scalar("half", 0.5F)});
    score = n.op("where", "foreground", {is, n.scalar("lowest", lowest), score});
  }
  if (top_k > 0 && top_k < boxes) score = highest_scores(n, score, top_k);
  const ValueId rows = kept_boxes(n, box, score, nms.number("nms_threshold", 0.3F),
                                  p.number("confidence_threshold", lowest));
  const auto column = [&](const char* role, const Ints& which) {
    return n.op("gather", role, {rows, n.ints(role, which)}, {{"axis", std::int64_t{1}}});
  };
  const ValueId scores = n.op("gather_nd", "scores", {score, rows});
  const auto f32 = [&](const char* role, ValueId v) {
    return n.op("cast", role, {v}, {{"to", std::string("f32")}});
  };
  ValueId out = n.op("concat", "rows",
                     {f32("labels", column("image_class", {0, 1})),
                      n.op("unsqueeze", "score", {scores}, {{"axes", Ints{1}}}),
                      n.op("gather_nd", "box", {box, column("image_box", {0, 2})})},
                     {{"axis", std::int64_t{1}}});
  if (keep > -1) out = best_of_each_image(n, out, scores, column("image", {0}), keep);
  g.note("DetectionOutput: rows (image, class, score, corners), as many as there are");
  top(op("unsqueeze", {out}, {{"axes", Ints{0, 1}}}));
}

}  // namespace etalon::caffe
