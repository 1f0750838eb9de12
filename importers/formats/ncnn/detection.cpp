// Boxes of detectors: SSD's priors and their decoding, YOLO's grids, and what overlaps too much
// dropped. Source: ncnn's public documentation ("operators"); Liu et al. (arXiv 1512.02325),
// section 2; Redmon, Farhadi (1612.08242, 1804.02767).
//
// What is kept is rows of (label from 1, score, x, y, x, y) by falling score, as many as there are.
// ncnn runs one sample; of more than one the rows stand in one list.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "engine/core/memory_budget.h"
#include "importers/formats/boxes.h"
#include "importers/formats/ncnn/layer.h"

namespace etalon::ncnn {
namespace {

constexpr std::int64_t kOfInput = -233;

LayerParts parts_of(const Layer& l) { return {l.g, l.name}; }
std::pair<std::int64_t, std::int64_t> plane(const Layer& l, std::size_t input) {
  return plane_of(l.g, l.input(input));
}

struct Extent {
  float w, h;
};

// The extents of an anchor's boxes in the image, in the file's sequence.
std::vector<Extent> anchor_extents(const std::vector<float>& least, const std::vector<float>& most,
                                   const std::vector<float>& ratios, bool flip) {
  std::vector<Extent> out;
  for (std::size_t k = 0; k < least.size(); ++k) {
    out.push_back({least[k], least[k]});
    if (!most.empty()) {
      const float side = std::sqrt(least[k] * most[k]);
      out.push_back({side, side});
    }
    for (const float ratio : ratios) {
      const float root = std::sqrt(ratio);
      out.push_back({least[k] * root, least[k] / root});
      if (flip) out.push_back({least[k] / root, least[k] * root});
    }
  }
  return out;
}

ValueId prior_constant(const Layer& l, std::vector<float> boxes, const std::vector<float>* four) {
  if (l.integer(8, 0) != 0)
    for (float& v : boxes) v = std::clamp(v, 0.0F, 1.0F);
  const auto n = static_cast<std::int64_t>(boxes.size());
  Shape shape{1, n};
  if (four != nullptr) {
    for (std::int64_t i = 0; i < n; ++i) boxes.push_back((*four)[static_cast<std::size_t>(i % 4)]);
    shape = Shape{1, 2, n};
  }
  return parts_of(l).floats("boxes", boxes, shape);
}

// Each point of the plane gives a box for each extent: [2, 4 * boxes] with the variances, or of
// MXNet's kind [4 * boxes], in shares of the image.
ValueId priors(const Layer& l, Weights&) {
  const std::vector<float> least = l.numbers(0), most = l.numbers(1), ratios = l.numbers(2);
  const std::vector<float> variances{l.number(3, 0.1F), l.number(4, 0.1F), l.number(5, 0.2F),
                                     l.number(6, 0.2F)};
  const bool flip = l.integer(7, 1) != 0;
  const auto [h, w] = plane(l, 0);
  const float fh = static_cast<float>(h), fw = static_cast<float>(w), offset = l.number(13, 0);
  std::int64_t image_w = l.integer(9, 0), image_h = l.integer(10, 0);
  float step_w = l.number(11, kOfInput), step_h = l.number(12, kOfInput);
  const bool whole_steps = l.integer(14, 0) != 0, centres = l.integer(15, 0) != 0;
  if (least.empty() || (!most.empty() && most.size() != least.size()))
    throw bad_input("{} least and {} largest sizes", least.size(), most.size());
  const bool mxnet =
      l.inputs.size() == 1 && image_w == kOfInput && image_h == kOfInput && most.empty();
  std::vector<Extent> extents;
  if (mxnet) {
    if (ratios.empty()) throw bad_input("no ratio of a box's sides");
    if (step_w == kOfInput) step_w = 1 / fw;
    if (step_h == kOfInput) step_h = 1 / fh;
    for (const float size : least) extents.push_back({size * fh / fw, size});
    for (std::size_t i = 1; i < ratios.size(); ++i) {
      const float root = std::sqrt(ratios[i]);
      extents.push_back({least[0] * fh / fw * root, least[0] / root});
    }
    image_w = image_h = 1;
  } else {
    if (image_w == kOfInput) image_w = plane(l, 1).second;
    if (image_h == kOfInput) image_h = plane(l, 1).first;
    if (image_w < 1 || image_h < 1) throw bad_input("an image of {} x {}", image_h, image_w);
    const auto step = [&](float given, std::int64_t image, float cells) {
      if (given != kOfInput) return given;
      const float s = static_cast<float>(image) / cells;
      return whole_steps ? std::ceil(s) : s;
    };
    step_w = step(step_w, image_w, fw);
    step_h = step(step_h, image_h, fh);
    extents = anchor_extents(least, most, ratios, flip);
  }
  if (static_cast<std::int64_t>(extents.size()) > kMostBoxes / (h * w))
    throw bad_input("{} boxes at each of {} x {} points", extents.size(), h, w);
  const float first_w = centres && !mxnet ? offset * (step_w - 1) : offset * step_w,
              first_h = centres && !mxnet ? offset * (step_h - 1) : offset * step_h,
              iw = static_cast<float>(image_w), ih = static_cast<float>(image_h);
  std::vector<float> boxes;
  const std::size_t count = extents.size() * static_cast<std::size_t>(4 * h * w);
  MemoryBudget::charge(count * sizeof(float));
  boxes.reserve(count);
  for (std::int64_t i = 0; i < h; ++i) {
    const float y = first_h + static_cast<float>(i) * step_h;
    float x = first_w;
    for (std::int64_t j = 0; j < w; ++j, x += step_w)
      for (const Extent& e : extents)
        for (const float v : {(x - e.w * 0.5F) / iw, (y - e.h * 0.5F) / ih, (x + e.w * 0.5F) / iw,
                              (y + e.h * 0.5F) / ih})
          boxes.push_back(v);
  }
  return prior_constant(l, std::move(boxes), mxnet ? nullptr : &variances);
}

// Rows (image, class, box) of what is kept, and from those (label, score, box).
struct Kept {
  ValueId boxes, scores;     // [N,P,4], [N,C,P]
  ValueId labels = kAbsent;  // [N,P]; not given: the class + 1
};

ValueId kept_rows(const LayerParts& p, const Kept& k, float overlap, float least) {
  const ValueId rows = kept_boxes(p, k.boxes, k.scores, overlap, least);
  const Fields columns{{"axis", std::int64_t{1}}};
  const ValueId at = p.op("gather", "where", {rows, p.ints("image_box", Ints{0, 2})}, columns);
  ValueId label = kAbsent;
  if (k.labels != kAbsent) {
    label = p.op("unsqueeze", "label", {p.op("gather_nd", "labels", {k.labels, at})},
                 {{"axes", Ints{1}}});
  } else {
    label = p.op("gather", "class", {rows, p.ints("class_column", Ints{1})}, columns);
    label = p.op("cast", "class_f32", {label}, {{"to", std::string("f32")}});
    label = p.op("add", "label", {label, p.scalar("one", 1)});
  }
  const ValueId score = p.op("unsqueeze", "score", {p.op("gather_nd", "scores", {k.scores, rows})},
                             {{"axes", Ints{1}}});
  p.g.note("detections: rows of label, score and corners, as many as there are; of one image");
  return p.op("concat", "rows", {label, score, p.op("gather_nd", "box", {k.boxes, at})},
              {{"axis", std::int64_t{1}}});
}

ValueId as_sample(const LayerParts& p, ValueId rows) {
  return p.g.op("unsqueeze", p.of, {rows}, {{"axes", Ints{0}}});
}

ValueId detections(const Layer& l, Weights&) {
  const LayerParts p = parts_of(l);
  const std::int64_t named = l.integer(0, 0), top = l.integer(2, 300), keep = l.integer(3, 100);
  const float overlap = l.number(1, 0.05F), least = l.number(4, 0.5F);
  const std::vector<float> four{l.number(5, 0.1F), l.number(6, 0.1F), l.number(7, 0.2F),
                                l.number(8, 0.2F)};
  const ValueId location = l.input(0), confidence = l.input(1), prior = l.input(2);
  if (top < 1 || keep < 1) throw bad_input("{} candidates, {} detections", top, keep);
  const bool mxnet = named == kOfInput;
  if (l.g.rank(prior) != 3 || (!mxnet && l.g.shape(prior)[1] != 2))
    throw bad_input("priors of {}", to_string(l.g.shape(prior)));
  const std::int64_t n = mxnet ? l.g.shape(prior)[1] : l.g.shape(prior)[2] / 4;
  if (mxnet && l.g.rank(confidence) != 3) throw bad_input("scores of another shape");
  const std::int64_t classes = mxnet ? l.g.shape(confidence)[1] : named;
  if (n < 1 || classes < 2 || classes > 1 << 20)
    throw bad_input("{} priors of {} classes", n, classes);
  const ValueId box =
      mxnet ? prior : l.g.reshape(p.name("prior"), p.cut("first", prior, 1, 0, 1), {0, n, 4});
  const ValueId variance =
      mxnet ? p.floats("variance", four, Shape{4})
            : l.g.reshape(p.name("variance"), p.cut("second", prior, 1, 1, 2), {0, n, 4});
  const ValueId offsets = l.g.reshape(p.name("offsets"), location, {0, n, 4});
  Kept k{.boxes = decoded_boxes(p, box, variance, offsets), .scores = confidence};
  if (!mxnet) {
    k.scores = l.g.reshape(p.name("by_prior"), confidence, {0, n, classes});
    k.scores = l.g.transpose(p.name("by_class"), k.scores, {0, 2, 1});
  }
  k.scores = p.cut("foreground", k.scores, 1, 1, classes);  // without the background
  if (top < n) k.scores = highest_scores(p, k.scores, top);
  const ValueId rows = kept_rows(p, k, overlap, least);
  // Of all classes the highest scores.
  const ValueId score =
      p.op("squeeze", "score_column", {p.cut("column", rows, 1, 1, 2)}, {{"axes", Ints{1}}});
  const ValueId count =
      p.op("min", "count", {p.op("shape", "found", {score}), p.ints("keep", {keep})});
  const Params by = make_params(get_op("top_k"), {{"axis", std::int64_t{0}}});
  const auto order = l.g.nodes("top_k", p.name("order"), {score, count}, by, 2);
  return as_sample(p, p.op("gather", "sorted", {rows, order[1]}));
}

std::vector<std::int64_t> indices(const Layer& l, int id) {
  std::vector<std::int64_t> out;
  for (const float v : l.numbers(id)) {
    if (!(v >= 0) || v > 1 << 16) throw bad_input("setting {}: {} is out of range", id, v);
    out.push_back(static_cast<std::int64_t>(v));
  }
  return out;
}

// One grid: boxes [N,P,4], scores [N,1,P], labels [N,P].
Kept grid(const Layer& l, std::size_t input, std::int64_t boxes, std::int64_t classes,
          const std::vector<float>& sides, Extent net, bool third) {
  const LayerParts p = parts_of(l);
  const auto [h, w] = plane(l, input);
  const std::int64_t each = 5 + classes, points = h * w;
  ValueId x = l.input(input);
  if (l.g.shape(x)[1] != boxes * each || boxes > kMostBoxes / points)
    throw bad_input("{} channels for {} boxes of {}", l.g.shape(x)[1], boxes, each);
  x = l.g.reshape(p.name("boxes"), x, {0, boxes, each, points});
  x = l.g.transpose(p.name("points"), x, {0, 1, 3, 2});
  std::vector<float> at;
  for (std::int64_t i = 0; i < h; ++i)
    for (std::int64_t j = 0; j < w; ++j) {
      at.push_back(static_cast<float>(j));
      at.push_back(static_cast<float>(i));
    }
  const Shape pair{1, 1, 1, 2};
  ValueId centre = p.op("sigmoid", "within", {p.cut("xy", x, 3, 0, 2)});
  centre = p.op("add", "cell", {centre, p.floats("cells", at, Shape{1, 1, points, 2})});
  centre = p.op("div", "centre",
                {centre, p.floats("plane", {static_cast<float>(w), static_cast<float>(h)}, pair)});
  ValueId extent = p.op("exp", "growth", {p.cut("wh", x, 3, 2, 4)});
  extent = p.op("mul", "anchored", {extent, p.floats("anchors", sides, Shape{1, boxes, 1, 2})});
  extent = p.op("div", "extent", {extent, p.floats("net", {net.w, net.h}, pair)});
  const ValueId object = p.cut("object", x, 3, 4, 5);
  ValueId by_class = p.cut("classes", x, 3, 5, each);
  const Fields last{{"axis", std::int64_t{3}}};
  if (!third) by_class = p.op("softmax", "shares", {by_class}, last);
  const ValueId best =
      p.op("reduce_max", "best", {by_class}, {{"axes", Ints{3}}, {"keepdims", true}});
  ValueId score = kAbsent;
  if (third) {
    // 1 / (1 + e^-object (1 + e^-class)), as ncnn has it: not the product of two sigmoids.
    const ValueId one = p.scalar("one", 1);
    const auto away = [&](std::string_view role, ValueId v) {
      return p.op("exp", role, {p.op("neg", std::string(role) + ".neg", {v})});
    };
    score = p.op("add", "doubt", {one, away("class_doubt", best)});
    score = p.op("add", "all_doubt",
                 {one, p.op("mul", "doubts", {away("object_doubt", object), score})});
    score = p.op("div", "score", {one, score});
  } else {
    score = p.op("mul", "score", {p.op("sigmoid", "objectness", {object}), best});
  }
  ValueId label = p.op("cast", "class_f32", {p.op("arg_max", "class", {by_class}, last)},
                       {{"to", std::string("f32")}});
  label = p.op("add", "label", {label, p.scalar("first", 1)});
  const std::int64_t all = boxes * points;
  return {.boxes = l.g.reshape(p.name("all"), box_corners(p, centre, extent, 3), {0, all, 4}),
          .scores = l.g.reshape(p.name("scores"), score, {0, 1, all}),
          .labels = l.g.reshape(p.name("labels"), label, {0, all})};
}

ValueId yolo(const Layer& l, Weights&) {
  const bool third = l.type == "Yolov3DetectionOutput";
  const LayerParts p = parts_of(l);
  const std::int64_t classes = l.integer(0, 20), boxes = l.integer(1, 5);
  const float least = l.number(2, 0.01F), overlap = l.number(3, 0.45F);
  const std::vector<float> biases = l.numbers(4);
  if (classes < 1 || classes > 1 << 20 || boxes < 1 || boxes > 1 << 16 || l.inputs.empty())
    throw bad_input("{} classes, {} boxes, {} inputs", classes, boxes, l.inputs.size());
  const std::vector<std::int64_t> mask = third ? indices(l, 5) : std::vector<std::int64_t>();
  const std::vector<float> scale = third ? l.numbers(6) : std::vector<float>();
  std::vector<ValueId> all_boxes, all_scores, all_labels;
  for (std::size_t b = 0; b < l.inputs.size(); ++b) {
    const auto [h, w] = plane(l, b);
    Extent net{static_cast<float>(w), static_cast<float>(h)};
    if (third) {
      if (b >= scale.size()) throw bad_input("{} scales for {} inputs", scale.size(), b + 1);
      net = {std::trunc(scale[b] * net.w), std::trunc(scale[b] * net.h)};
    }
    std::vector<float> sides;
    for (std::size_t i = 0; i < static_cast<std::size_t>(boxes); ++i) {
      const std::size_t m = b * static_cast<std::size_t>(boxes) + i;
      if (third && m >= mask.size()) throw bad_input("{} anchors named", mask.size());
      const std::size_t at = third ? static_cast<std::size_t>(mask[m]) : i;
      if (2 * at + 1 >= biases.size()) throw bad_input("anchor {} of {}", at, biases.size() / 2);
      sides.insert(sides.end(), {biases[2 * at], biases[2 * at + 1]});
    }
    const Kept k = grid(l, b, boxes, classes, sides, net, third);
    all_boxes.push_back(k.boxes);
    all_scores.push_back(k.scores);
    all_labels.push_back(k.labels);
  }
  const auto joined = [&](std::string_view role, const std::vector<ValueId>& of,
                          std::int64_t axis) {
    return of.size() == 1 ? of[0] : p.op("concat", role, of, {{"axis", axis}});
  };
  const Kept k{.boxes = joined("all_boxes", all_boxes, 1),
               .scores = joined("all_scores", all_scores, 2),
               .labels = joined("all_labels", all_labels, 1)};
  // At least the threshold there, above a limit here.
  return as_sample(
      p, kept_rows(p, k, overlap, std::nextafter(least, -std::numeric_limits<float>::infinity())));
}

}  // namespace

std::span<const LayerRow> detection_rows() {
  static constexpr LayerRow kRows[] = {
      {"DetectionOutput", detections},
      {"PriorBox", priors},
      {"YoloDetectionOutput", yolo},
      {"Yolov3DetectionOutput", yolo},
  };
  return kRows;
}

}  // namespace etalon::ncnn
