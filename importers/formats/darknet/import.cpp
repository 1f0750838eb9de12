// Darknet: a .cfg of sections with a .weights; either names the model.
//
// Conventions: `pad=1` pads a convolution by half its kernel; a max pool's padding (kernel - 1 by
// default) stands half before, the odd element behind; batch norm adds 1e-6 to the deviation, not
// to the variance; leaky is 0.1; what a [yolo] or [region] layer does to its input is part of the
// network, boxes are not. Refused by name: recurrent sections. Source: darknet's parser.c and its
// layers, as they behave on the CPU.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/companion.h"
#include "importers/formats/darknet.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon {
namespace darknet {
namespace {

// Options that training reads, or what makes boxes of a detection's numbers.
constexpr std::string_view kSilent[] = {"absolute",
                                        "anchors",
                                        "angle",
                                        "beta_nms",
                                        "bias_match",
                                        "burnin_update",
                                        "class_scale",
                                        "classfix",
                                        "clip",
                                        "cls_normalizer",
                                        "coord_scale",
                                        "counters_per_class",
                                        "delta_normalizer",
                                        "dontload",
                                        "dontloadscales",
                                        "dropblock",
                                        "dropblock_size_abs",
                                        "dropblock_size_rel",
                                        "exposure",
                                        "flip",
                                        "focal_loss",
                                        "forced",
                                        "ignore_thresh",
                                        "iou_loss",
                                        "iou_normalizer",
                                        "iou_thresh",
                                        "iou_thresh_kind",
                                        "jitter",
                                        "label_smooth_eps",
                                        "learning_rate",
                                        "log",
                                        "map",
                                        "mask_scale",
                                        "max",
                                        "max_delta",
                                        "name",
                                        "nms_kind",
                                        "noloss",
                                        "noobject_scale",
                                        "num",
                                        "numload",
                                        "obj_normalizer",
                                        "object_scale",
                                        "objectness_smooth",
                                        "onlyforward",
                                        "probability",
                                        "random",
                                        "rescore",
                                        "resize",
                                        "saturation",
                                        "shift",
                                        "show_details",
                                        "smooth",
                                        "sqrt",
                                        "stopbackward",
                                        "thresh",
                                        "train_only_bn",
                                        "truth_thresh",
                                        "uc_normalizer"};

const SectionRow& row_of(const std::string& type) {
  for (const auto rows :
       {weighted_sections(), plain_sections(), moving_sections(), detection_sections()})
    for (const SectionRow& row : rows)
      if (row.type == type || row.other == type) return row;
  throw bad_input("the section [{}] is not supported", printable(type));
}

void translate(GraphBuilder& g, Weights& weights, const std::vector<Section>& sections) {
  if (sections.empty() || (sections[0].type != "net" && sections[0].type != "network"))
    throw bad_input("the first section must be [net]");
  const std::int64_t c = sections[0].integer("channels", 0), h = sections[0].integer("height", 0),
                     width = sections[0].integer("width", 0);
  ValueId x = h > 0 && width > 0 && c > 0
                  ? g.input("data", DType::f32, {-1, c, h, width})
                  : g.input("data", DType::f32, {-1, sections[0].integer("inputs", 1)});
  std::vector<ValueId> made, detections;
  for (std::size_t i = 1; i < sections.size(); ++i) {
    const Section& s = sections[i];
    const ErrorScope where(fmt::format("node {} [{}]", i - 1, printable(s.type)));
    const Layer layer{.g = g,
                      .w = weights,
                      .s = s,
                      .name = fmt::format("{}_{}", s.type, i - 1),
                      .x = x,
                      .made = made,
                      .detections = detections};
    x = row_of(s.type).translate(layer);
    for (const auto& [key, value] : s.options)
      if (!s.read.contains(key) && std::ranges::find(kSilent, key) == std::end(kSilent))
        throw bad_input(
            "the option {}={} has no translation; take it out if it serves training alone",
            printable(key), printable(value));
    made.push_back(x);
  }
  for (const ValueId v : detections) g.output(v);
  if (detections.empty()) g.output(x);
  if (weights.left() != 0)
    g.note(fmt::format("{} bytes of weights behind those of the last layer are not read",
                       weights.left()));
}

Model open(const std::string& path, std::span<const std::string> with) {
  const std::string cfg = companion(path, with, {".cfg"}),
                    weights = companion(path, with, {".weights"});
  if (cfg.empty()) throw bad_input("{}: no .cfg lies beside it; name it with --with", path);
  if (weights.empty())
    throw bad_input("{}: no .weights lie beside it; name them with --with", path);
  const Blob text = map_file(cfg), numbers = map_file(weights);
  const ErrorScope scope(path);
  Weights w(numbers);
  GraphBuilder g(stem_of(cfg));
  translate(g, w, sections_of(text.text()));
  return finish_model(g, path, "darknet", "weights " + w.version, "darknet");
}

}  // namespace
}  // namespace darknet

const FormatRow& darknet_format() {
  static const FormatRow row{.name = "darknet",
                             .endings = ".cfg .weights",
                             .summary = "Darknet: .cfg and .weights.",
                             .match =
                                 [](const FileView& f) {
                                   if (f.is_folder) return false;
                                   if (has_ending(f.path, ".weights")) return true;
                                   return f.text().starts_with("[net]") ||
                                          f.text().find("\n[net]") != std::string_view::npos;
                                 },
                             .open = darknet::open};
  return row;
}

}  // namespace etalon
