// What detectors keep: NonMaxSuppression and SSD's DetectionOutput.
#include "importers/formats/boxes.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/openvino/priors.h"

namespace etalon::openvino {

std::vector<float> floats(const Layer& l, std::string_view key) {
  std::vector<float> out;
  const std::string all = l.text(key, "");
  for (std::string_view rest = all; !rest.empty();) {
    const std::size_t cut = std::min(rest.find(','), rest.size());
    std::string one(rest.substr(0, cut));
    std::erase(one, ' ');
    rest.remove_prefix(std::min(cut + 1, rest.size()));
    if (one.empty()) continue;
    float v = 0;
    const auto [end, error] = std::from_chars(one.data(), one.data() + one.size(), v);
    if (error != std::errc() || end != one.data() + one.size())
      throw bad_input("{}: '{}' is no number", key, printable(one));
    out.push_back(v);
    if (out.size() > 1024) throw bad_input("{}: more than 1024 numbers", key);
  }
  return out;
}

namespace {

ValueId typed(const LayerParts& n, const char* role, ValueId v, const std::string& type) {
  return n.op("cast", role, {v}, {{"to", type}});
}

// Boxes of each image and class by falling score: rows (image, class, box), the same with scores,
// how many. OpenVINO drops what overlaps by no less than the limit. Sorted, the rows of all images
// and classes stand by falling score.
std::vector<ValueId> non_max_suppression(const Layer& l) {
  const LayerParts n{l.g, l.name};
  const std::string encoding = l.text("box_encoding", "corner");
  if (encoding != "corner" && encoding != "center")
    throw bad_input("the box encoding {}", printable(encoding));
  if (l.has(5) && l.constant_number(5) != 0)
    throw bad_input("NonMaxSuppression that lowers scores is not supported");
  const std::int64_t most = l.has(2) ? l.constant(2).at(0) : 0;
  const float limit = l.has(3) ? l.constant_number(3) : 0.0F;
  if (!(limit > 0)) throw bad_input("NonMaxSuppression whose overlap is no number above 0");
  ValueId rows = n.op("non_max_suppression", "rows",
                      {l.input(0), l.input(1), n.ints("most", {most}),
                       n.scalar("overlap", std::nextafter(limit, 0.0F)),
                       n.scalar("least", l.has(4) ? l.constant_number(4) : 0.0F)},
                      {{"center_point_box", encoding == "center"}});
  ValueId found = n.op("gather_nd", "found", {l.input(1), rows});
  if (l.flag("sort_result_descending", true)) {
    const Params by = make_params(get_op("top_k"), {{"axis", std::int64_t{0}}});
    const auto order =
        l.g.nodes("top_k", n.name("order"), {found, n.op("shape", "all", {found})}, by, 2);
    rows = n.op("gather", "sorted", {rows, order[1]}, {{"axis", std::int64_t{0}}});
    found = order[0];
  }
  const ValueId scores = n.op("concat", "scores",
                              {typed(n, "places", n.cut("image_class", rows, 1, 0, 2), "f32"),
                               n.op("unsqueeze", "column", {found}, {{"axes", Ints{1}}})},
                              {{"axis", std::int64_t{1}}});
  const ValueId count =
      n.op("unsqueeze", "count", {n.op("size", "size", {found})}, {{"axes", Ints{0}}});
  const DType to = dtype_named(l.text("output_type", "i64"));
  const auto kind = [&](const char* role, ValueId v) {
    return to == DType::i64 ? v : typed(n, role, v, std::string(name(to)));
  };
  std::vector<ValueId> out{kind("indices", rows), scores, kind("valid", count)};
  out.resize(std::min(l.outputs, out.size()));
  return out;
}

// What DetectionOutput's settings say.
struct Detecting {
  std::int64_t classes, boxes, background, top_k, keep, images;
  float overlap, least;
  bool shared, varied, centres, normalised, clip_first, clip_last;
};

Detecting detecting(const Layer& l) {
  Detecting d{};
  const Ints keep = l.integers("keep_top_k");
  d.keep = keep.empty() ? -1 : keep[0];
  d.background = l.integer("background_label_id", 0);
  d.top_k = l.integer("top_k", -1);
  d.overlap = l.number("nms_threshold", 0);
  d.least = l.number("confidence_threshold", 0);
  d.shared = l.flag("share_location", true);
  d.varied = !l.flag("variance_encoded_in_target", false);
  d.normalised = l.flag("normalized", false);
  d.clip_first = l.flag("clip_before_nms", false);
  d.clip_last = l.flag("clip_after_nms", false);
  const std::string code = l.text("code_type", "caffe.PriorBoxParameter.CORNER");
  d.centres = code.ends_with("CENTER_SIZE");
  if (!d.centres && !code.ends_with("CORNER")) throw bad_input("code_type {}", printable(code));
  if (l.flag("decrease_label_id", false))
    throw bad_input("labels that leave out the background, one for each box");
  if (l.inputs.size() != 3) throw bad_input("DetectionOutput of {} inputs", l.inputs.size());
  d.images = l.extent(0, 0);
  const std::int64_t width = l.extent(2, 2);
  d.boxes = width / (d.normalised ? 4 : 5);
  if (d.boxes < 1) throw bad_input("{} numbers of priors", width);
  d.classes = l.integer("num_classes", l.extent(1, 1) / d.boxes);
  l.number("objectness_score", 0);  // of five inputs only
  if (d.classes < 1 || d.classes > 1 << 20 || d.images < 1 || l.extent(2, 0) != 1)
    throw bad_input("{} boxes of {} classes in {} images", d.boxes, d.classes, d.images);
  return d;
}

// Boxes [images, boxes, 4] or, of each class its own, [images * classes, boxes, 4].
ValueId detected_boxes(const Layer& l, const LayerParts& n, const Detecting& d) {
  const std::int64_t width = d.normalised ? 4 : 5;
  const auto row = [&](const char* role, std::int64_t i) {
    const ValueId v =
        l.g.reshape(n.name(role), n.cut(role, l.input(2), 1, i, i + 1), {0, d.boxes, width});
    return width == 4 ? v : n.cut("without_number", v, 2, 1, 5);
  };
  ValueId prior = row("prior", 0);
  const auto w = static_cast<float>(l.integer("input_width", 1)),
             h = static_cast<float>(l.integer("input_height", 1));
  if (!d.normalised) {
    prior = n.op("div", "shares", {prior, n.floats("image", {w, h, w, h}, Shape{4})});
  }
  ValueId variance = n.floats("one", {1, 1, 1, 1}, Shape{4});
  if (d.varied) {
    // Four of each box, whatever the width of a prior.
    const ValueId all =
        l.g.reshape(n.name("variances"), n.cut("second", l.input(2), 1, 1, 2), {0, -1});
    variance =
        l.g.reshape(n.name("variance"), n.cut("of_boxes", all, 1, 0, 4 * d.boxes), {0, d.boxes, 4});
  }
  ValueId offsets = kAbsent;
  if (d.shared) {
    offsets = l.g.reshape(n.name("offsets"), l.input(0), {0, d.boxes, 4});
  } else {
    const ValueId by_box =
        l.g.reshape(n.name("by_box"), l.input(0), {d.images, d.boxes, d.classes, 4});
    offsets =
        l.g.reshape(n.name("offsets"), l.g.transpose(n.name("by_class"), by_box, {0, 2, 1, 3}),
                    {d.images * d.classes, d.boxes, 4});
  }
  ValueId box = kAbsent;
  if (d.centres)
    box = decoded_boxes(n, prior, variance, offsets);
  else
    box = n.op("add", "moved", {prior, n.op("mul", "shift", {offsets, variance})});
  return d.clip_first ? n.op("clip", "clipped", {box}, {{"min", 0.0F}, {"max", 1.0F}}) : box;
}

// [1, 1, rows, 7]: image, class, score, corners; of each image its classes in order, by falling
// score, as many rows as there may be: behind the last found stands one of image -1, then zeros.
ValueId detection_output(const Layer& l) {
  const LayerParts n{l.g, l.name};
  const Detecting d = detecting(l);
  const ValueId box = detected_boxes(l, n, d);
  const ValueId scores_of =
      l.g.reshape(n.name("scores_of_boxes"), l.input(1), {d.images, d.boxes, d.classes});
  ValueId score = l.g.transpose(n.name("by_score"), scores_of, {0, 2, 1});
  if (d.background >= 0 && d.background < d.classes) {  // a class of which nothing is kept
    std::vector<float> none(static_cast<std::size_t>(d.classes), 0);
    none[static_cast<std::size_t>(d.background)] = 1;
    score =
        n.op("where", "foreground",
             {n.op("greater", "is_background",
                   {n.floats("background", none, Shape{1, d.classes, 1}), n.scalar("half", 0.5F)}),
              n.scalar("lowest", std::numeric_limits<float>::lowest()), score});
  }
  if (d.top_k > 0 && d.top_k < d.boxes) score = highest_scores(n, score, d.top_k);
  if (!d.shared) score = l.g.reshape(n.name("each"), score, {d.images * d.classes, 1, d.boxes});
  const ValueId rows = kept_boxes(n, box, score, d.overlap, d.least);
  const auto column = [&](const char* role, const Ints& which) {
    return n.op("gather", role, {rows, n.ints(role, which)}, {{"axis", std::int64_t{1}}});
  };
  ValueId image = column("image", {0}), label = column("class", {1});
  if (!d.shared) {
    const ValueId each = n.ints("classes", {d.classes});
    label = n.op("mod", "label", {image, each});
    image = n.op("div", "image_of", {image, each});
  }
  const ValueId found = n.op("gather_nd", "found", {score, rows});
  ValueId corners = n.op("gather_nd", "box", {box, column("image_box", {0, 2})});
  if (d.clip_last) corners = n.op("clip", "held", {corners}, {{"min", 0.0F}, {"max", 1.0F}});
  ValueId out = n.op("concat", "rows",
                     {typed(n, "image_f32", image, "f32"), typed(n, "label_f32", label, "f32"),
                      n.op("unsqueeze", "score", {found}, {{"axes", Ints{1}}}), corners},
                     {{"axis", std::int64_t{1}}});
  if (d.keep > 0) out = best_of_each_image(n, out, found, image, d.keep);
  const std::int64_t each = d.keep > 0    ? d.keep
                            : d.top_k > 0 ? checked_mul(d.top_k, d.classes)
                                          : checked_mul(d.boxes, d.classes);
  const std::int64_t all = checked_mul(d.images, each);
  if (all > kMostBoxes) throw bad_input("{} rows of detections", all);
  std::vector<float> empty(static_cast<std::size_t>(7 * all), 0);
  empty[0] = -1;
  const ValueId filled = n.op("concat", "filled", {out, n.floats("empty", empty, Shape{all, 7})},
                              {{"axis", std::int64_t{0}}});
  l.g.note("DetectionOutput: rows (image, class, score, corners); image -1 stands behind the last");
  return l.g.op("unsqueeze", l.name, {n.cut("all", filled, 0, 0, all)}, {{"axes", Ints{0, 1}}});
}

}  // namespace

std::vector<ValueId> translate_boxes(const Layer& l) {
  if (l.type == "NonMaxSuppression") return non_max_suppression(l);
  if (l.type == "PriorBox") return {prior_box(l)};
  if (l.type == "PriorBoxClustered") return {prior_box_clustered(l)};
  if (l.type == "DetectionOutput") return {detection_output(l)};
  return {};
}

}  // namespace etalon::openvino
