// Sections that make detections of a network's values. What they do to the values is translated;
// boxes, which darknet makes of them outside of the network, are not.
#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/darknet/layer.h"
#include "importers/formats/translate.h"

namespace etalon::darknet {
namespace {

constexpr const char* kNoBoxes = "; boxes are not made";

// x as [N, boxes, values, H, W], cut along its values.
std::vector<ValueId> parts_of(const Layer& l, std::int64_t boxes, const Ints& sizes) {
  std::int64_t values = 0;
  for (const std::int64_t size : sizes) values += size;
  const Shape shape = l.image();
  if (boxes < 1 || shape[1] != boxes * values)
    throw bad_input("{} channels for {} boxes of {} values", shape[1], boxes, values);
  const ValueId all =
      l.op("reshape", "boxes", {l.x}, {{"shape", Ints{-1, boxes, values, shape[2], shape[3]}}});
  return l.g.nodes("split", l.name + ".parts", {all},
                   make_params(get_op("split"), {{"axis", std::int64_t{2}}, {"split", sizes}}),
                   static_cast<int>(sizes.size()));
}

ValueId together(const Layer& l, const std::vector<ValueId>& parts) {
  const Shape shape = l.g.shape(l.x);
  const ValueId all = l.op("concat", "all", parts, {{"axis", std::int64_t{2}}});
  return l.op("reshape", "", {all}, {{"shape", Ints{-1, shape[1], shape[2], shape[3]}}});
}

std::int64_t count_of(const Section& s, std::string_view key, std::int64_t otherwise) {
  const std::int64_t n = s.integer(key, otherwise);
  if (n < 1 || n > 1 << 16) throw bad_input("{}={}", key, n);
  return n;
}

// Places stretched around the middle of their cell.
ValueId stretched(const Layer& l, ValueId places, const std::string& role) {
  const float by = l.s.number("scale_x_y", 1);
  if (by == 1) return places;
  l.g.note(
      fmt::format("[{}] stretches places around the middle of their cell (scale_x_y)", l.s.type));
  return l.op("add", role,
              {l.op("mul", role + ".stretched", {places, l.constant(role + ".by", scalar_f32(by))}),
               l.constant(role + ".shift", scalar_f32(-0.5F * (by - 1)))});
}

std::int64_t boxes_of(const Section& s) {
  const auto mask = static_cast<std::int64_t>(s.integers("mask").size());
  return mask > 0 ? mask : s.integer("num", 1);
}

ValueId yolo(const Layer& l) {
  const std::int64_t classes = count_of(l.s, "classes", 20);
  const std::vector<ValueId> parts = parts_of(l, boxes_of(l.s), {2, 2, classes + 1});
  // With new_coords the convolution before it has taken the logistic of everything.
  const bool logistic = l.s.integer("new_coords", 0) == 0;
  ValueId xy = logistic ? l.op("sigmoid", "logistic", {parts[0]}) : parts[0];
  const ValueId rest = logistic ? l.op("sigmoid", "scores", {parts[2]}) : parts[2];
  xy = stretched(l, xy, "xy");
  l.g.note(
      fmt::format("a [yolo] section takes the logistic of places, objectness and classes "
                  "(with new_coords as they come){}",
                  kNoBoxes));
  const ValueId y = together(l, {xy, parts[1], rest});
  l.detections.push_back(y);
  return y;
}

// Of each box x, y, w, h with an uncertainty behind each, then objectness and classes.
ValueId gaussian_yolo(const Layer& l) {
  const std::int64_t classes = count_of(l.s, "classes", 20);
  std::vector<ValueId> parts = parts_of(l, boxes_of(l.s), {1, 1, 1, 1, 1, 1, 1, classes + 2});
  for (const std::size_t i : {0U, 1U, 2U, 3U, 5U, 7U}) {
    // The last part begins with the uncertainty of h.
    parts[i] = l.op("sigmoid", fmt::format("logistic{}", i), {parts[i]});
    if (i == 0 || i == 2) parts[i] = stretched(l, parts[i], fmt::format("place{}", i));
  }
  l.g.note(
      fmt::format("a [Gaussian_yolo] section takes the logistic of all but the extents of its "
                  "boxes{}",
                  kNoBoxes));
  const ValueId y = together(l, parts);
  l.detections.push_back(y);
  return y;
}

ValueId region(const Layer& l) {
  const std::int64_t coords = count_of(l.s, "coords", 4), classes = count_of(l.s, "classes", 20),
                     n = l.s.integer("num", 1);
  if (coords < 3) throw bad_input("{} places a box", coords);
  const std::string tree = l.s.text("tree", "");
  const bool softmax = l.s.integer("softmax", 0) != 0,
             background = l.s.integer("background", 0) != 0;
  if (background && (!softmax || !tree.empty()))
    throw bad_input("a background without a softmax of all classes");
  // With a background the objectness is a class of the softmax.
  const Ints sizes =
      background ? Ints{2, coords - 2, classes + 1} : Ints{2, coords - 2, 1, classes};
  std::vector<ValueId> parts = parts_of(l, n, sizes);
  parts[0] = l.op("sigmoid", "xy", {parts[0]});
  if (!background) parts[2] = l.op("sigmoid", "objectness", {parts[2]});
  if (!tree.empty())
    parts.back() = tree_softmax(l, parts.back(), 2, tree);
  else
    parts.back() = softmax ? l.op("softmax", "classes", {parts.back()}, {{"axis", std::int64_t{2}}})
                           : l.op("sigmoid", "classes", {parts.back()});
  l.g.note(
      fmt::format("a [region] section takes the logistic of places and objectness, the {} of "
                  "classes{}",
                  softmax || !tree.empty() ? "softmax" : "logistic", kNoBoxes));
  return together(l, parts);
}

// Values of side^2 cells: all classes, then objectness, then places. They come as they are, but for
// the softmax of each cell's classes.
ValueId detection(const Layer& l) {
  const std::int64_t side = count_of(l.s, "side", 7), classes = count_of(l.s, "classes", 1),
                     n = count_of(l.s, "num", 1), coords = count_of(l.s, "coords", 1);
  const std::int64_t cells = side * side, of_classes = cells * classes,
                     others = cells * n * (1 + coords);
  if (l.elements() != of_classes + others)
    throw bad_input("{} values for {} cells of {} classes and {} boxes", l.elements(), cells,
                    classes, n);
  l.s.ordinary("reorg", 0);
  l.g.note(fmt::format("a [detection] section passes its values on{}", kNoBoxes));
  const ValueId x = l.flat();
  if (l.s.integer("softmax", 0) == 0) return l.op("identity", "", {x});
  const auto parts = l.g.nodes("split", l.name + ".parts", {x},
                               make_params(get_op("split"), {{"axis", std::int64_t{1}},
                                                             {"split", Ints{of_classes, others}}}),
                               2);
  const ValueId by_cell =
      l.op("reshape", "cells", {parts[0]}, {{"shape", Ints{-1, cells, classes}}});
  const ValueId chances = l.op("reshape", "classes", {l.op("softmax", "softmax", {by_cell})},
                               {{"shape", Ints{-1, of_classes}}});
  return l.op("concat", "", {chances, parts[1]}, {{"axis", std::int64_t{1}}});
}

constexpr SectionRow kRows[] = {{"yolo", "yolo", yolo},
                                {"Gaussian_yolo", "Gaussian_yolo", gaussian_yolo},
                                {"region", "region", region},
                                {"detection", "detection", detection}};

}  // namespace

std::span<const SectionRow> detection_sections() { return kRows; }

}  // namespace etalon::darknet
