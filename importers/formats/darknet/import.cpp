// Darknet: a .cfg of sections with a .weights; either names the model.
//
// Conventions: `pad=1` pads a convolution by half its kernel; a max pool's padding (kernel - 1 by
// default) stands half before, the odd element behind; batch norm adds 1e-6 to the deviation, not
// to the variance, where AlexeyAB's fork adds 1e-5 to the variance; leaky is 0.1; what a [yolo] or
// [region] layer does to its input is part of the network, boxes are not. Source: darknet's
// parser.c and its layers, as they behave on the CPU.
#include <algorithm>
#include <filesystem>

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
                                        "beta1",
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
                                        "dets_for_show",
                                        "dets_for_track",
                                        "dropblock",
                                        "dropblock_size_abs",
                                        "dropblock_size_rel",
                                        "embedding_layer",
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
                                        "sim_thresh",
                                        "smooth",
                                        "sqrt",
                                        "stopbackward",
                                        "thresh",
                                        "track_ciou_norm",
                                        "track_history_size",
                                        "train_only_bn",
                                        "truth_thresh",
                                        "uc_normalizer",
                                        "yolo_point"};

const SectionRow& row_of(const std::string& type) {
  for (const auto rows : {weighted_sections(), plain_sections(), moving_sections(),
                          detection_sections(), recurrent_sections()})
    for (const SectionRow& row : rows)
      if (row.type == type || row.other == type) return row;
  throw bad_input("the section [{}] is not supported", printable(type));
}

bool is_recurrent(const Section& s) {
  return std::ranges::any_of(recurrent_sections(),
                             [&](const SectionRow& row) { return row.type == s.type; });
}

// Whether a .cfg has what AlexeyAB's fork of Darknet alone reads.
bool of_fork(const std::vector<Section>& sections) {
  constexpr std::string_view kTypes[] = {"Gaussian_yolo",  "contrastive",   "conv_lstm", "empty",
                                         "local_avg",      "local_avgpool", "reorg3d",   "sam",
                                         "scale_channels", "silence"};
  constexpr std::string_view kOptions[] = {"beta_nms",    "bin_output", "dilation",   "group_id",
                                           "iou_loss",    "nms_kind",   "new_coords", "scale_x_y",
                                           "share_index", "stride_x",   "stride_y"};
  constexpr std::string_view kActivations[] = {"mish", "relu6", "swish"};
  const auto among = [](const auto& all, std::string_view what) {
    return std::ranges::find(all, what) != std::end(all);
  };
  return std::ranges::any_of(sections, [&](const Section& s) {
    const auto kind = s.options.find("activation");
    return among(kTypes, s.type) ||
           (kind != s.options.end() && among(kActivations, kind->second)) ||
           std::ranges::any_of(kOptions, [&](std::string_view key) { return s.has(key); }) ||
           (s.type == "crnn" && s.has("output"));
  });
}

// Rows of a sequence, or one: a .cfg for training may say time_steps without a section that has
// any.
std::int64_t steps_of(const std::vector<Section>& sections) {
  if (std::ranges::none_of(sections, is_recurrent)) return 1;
  const std::int64_t steps = sections[0].integer("time_steps", 1);
  if (steps < 1 || steps > 1 << 16)
    throw bad_input("time_steps={}, expected 1 to {}", steps, 1 << 16);
  return steps;
}

void translate(GraphBuilder& g, Weights& weights, const std::vector<Section>& sections,
               const std::function<Blob(const std::string&)>& file) {
  if (sections.empty() || (sections[0].type != "net" && sections[0].type != "network"))
    throw bad_input("the first section must be [net]");
  const std::int64_t c = sections[0].integer("channels", 0), h = sections[0].integer("height", 0),
                     width = sections[0].integer("width", 0);
  const std::int64_t steps = steps_of(sections);
  const bool image = h > 0 && width > 0 && c > 0;
  const Ints one = image ? Ints{c, h, width} : Ints{sections[0].integer("inputs", 1)};
  Ints rows{-1}, sequence{steps, -1};
  rows.insert(rows.end(), one.begin(), one.end());
  sequence.insert(sequence.end(), one.begin(), one.end());
  ValueId x = kAbsent;
  if (steps == 1)
    x = g.input("data", DType::f32, rows);
  else
    x = g.reshape("rows", g.input("data", DType::f32, sequence), rows);
  const bool fork = weights.fork || of_fork(sections);
  std::map<std::size_t, Part> parts;
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
                      .detections = detections,
                      .parts = parts,
                      .fork = fork,
                      .steps = steps,
                      .file = file};
    for (const char* key : {"dontload", "dontloadscales"}) s.ordinary(key, 0);
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
  // A .cfg names further files from where Darknet is run: they are found by their last name.
  const auto file = [&](const std::string& name) {
    const std::filesystem::path last = std::filesystem::path(name).filename();
    for (const std::string& other : with)
      if (std::filesystem::path(other).filename() == last) return map_file(other);
    const std::filesystem::path beside = std::filesystem::path(cfg).parent_path() / last;
    if (last.empty() || !std::filesystem::is_regular_file(beside))
      throw bad_input("does not lie beside the .cfg; name it with --with");
    return map_file(beside.string());
  };
  translate(g, w, sections_of(text.text()), file);
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
                             .open = darknet::open,
                             .takes_more = true};
  return row;
}

}  // namespace etalon
