// Layers that compare, choose and look up: comparisons and logic, where, gather, scatter, arg max,
// top k, sorting, one hot, the coordinates of what is not zero, regions and boxes.
//
// All values are f32: a condition is what is not zero, a result is 1 or 0, an index is a number.
#include <algorithm>

#include "engine/core/error.h"
#include "engine/numerics/element.h"
#include "importers/formats/coreml/boxes.h"
#include "importers/formats/coreml/layers.h"

namespace etalon::coreml {
namespace {

using Names = std::pair<const char*, const char*>;
constexpr Names kComparisons[] = {{"equal", "equal"},
                                  {"lessThan", "less"},
                                  {"lessEqual", "less_or_equal"},
                                  {"greaterThan", "greater"},
                                  {"greaterEqual", "greater_or_equal"}};
constexpr Names kLogic[] = {{"logicalAnd", "and"}, {"logicalOr", "or"}, {"logicalXor", "xor"}};

ValueId truth(const NetworkLayer& n, std::size_t i) {
  const ValueId zero = n.g.op("equal", n.name + ".zero", {n.input(i), n.number(0)});
  return n.g.op("not", n.name + ".true", {zero});
}

ValueId comparison(const NetworkLayer& n, const char* field, const char* op) {
  const ValueId other =
      n.inputs.size() > 1 ? n.inputs[1] : n.number(n.message.message(field).number("alpha"));
  return n.g.op(op, n.name, {n.input(0), other});
}

std::string reduction(const PbMessage& p) {
  switch (p.integer("mode")) {
    case 0:
      return "none";
    case 1:
      return "add";
    case 3:
      return "mul";
    case 5:
      return "max";
    case 6:
      return "min";
    default:
      throw bad_input("a scatter that subtracts or divides is not supported");
  }
}

// Slices at indices of one axis, as a scatter of coordinates over the axis brought to the front.
ValueId scatter(const NetworkLayer& n, const PbMessage& p) {
  const int rank = n.g.rank(n.input(0));
  const int axis = normalize_axis(p.integer("axis"), rank);
  Ints front, back;
  for (int i = 0; i < rank; ++i) front.push_back(i);
  std::rotate(front.begin(), front.begin() + axis, front.begin() + axis + 1);
  back = front;
  for (int i = 0; i < rank; ++i)
    back[static_cast<std::size_t>(front[static_cast<std::size_t>(i)])] = i;
  const ValueId x = n.g.transpose(n.name + ".front", n.input(0), front),
                updates = n.g.transpose(n.name + ".slices", n.input(2), front),
                at = n.g.op("unsqueeze", n.name + ".coordinates", {n.integers(1)},
                            {{"axes", Ints{-1}}});
  return n.g.transpose(
      n.name, n.g.op("scatter_nd", n.name, {x, at, updates}, {{"reduction", reduction(p)}}), back);
}

ValueId arg(const NetworkLayer& n, const char* op, const PbMessage& p) {
  const bool keep = !p.flag("removeDim") || n.g.rank(n.input(0)) == 1;
  return n.f32(n.g.op(op, n.name, {n.input(0)}, {{"axis", p.integer("axis")}, {"keepdims", keep}}));
}

std::vector<ValueId> top_k(const NetworkLayer& n, const PbMessage& p) {
  std::vector<ValueId> in{n.input(0)};
  if (n.inputs.size() > 1) in.push_back(n.g.reshape(n.name + ".k", n.integers(1), {1}));
  const Fields f{
      {"axis", p.integer("axis")}, {"k", p.integer("K", 1)}, {"largest", !p.flag("useBottomK")}};
  const auto y = n.g.nodes("top_k", n.name, in, make_params(get_op("top_k"), f), 2);
  return {y[0], n.f32(y[1])};
}

ValueId arg_sort(const NetworkLayer& n, const PbMessage& p) {
  const int axis = normalize_axis(p.integer("axis"), n.g.rank(n.input(0)));
  const std::int64_t extent = n.g.dims(n.input(0))[static_cast<std::size_t>(axis)];
  if (extent < 0) throw bad_input("an argSort over an axis whose extent is free is not supported");
  const Fields f{{"axis", std::int64_t{axis}}, {"k", extent}, {"largest", p.flag("descending")}};
  n.g.note("argSort: of equals the first stands first");
  return n.f32(n.g.nodes("top_k", n.name, {n.input(0)}, make_params(get_op("top_k"), f), 2)[1]);
}

ValueId one_hot(const NetworkLayer& n, const PbMessage& p) {
  const ValueId depth =
      n.inputs.size() > 1
          ? n.g.reshape(n.name + ".depth", n.integers(1), {1})
          : n.g.constant(n.name + ".depth",
                         Tensor::of<std::int64_t>({}, {p.integer("oneHotVectorSize")}));
  Tensor values = Tensor::of<float>({2}, {p.number("offValue"), p.number("onValue")});
  return n.g.op("one_hot", n.name,
                {n.integers(0), depth, n.g.constant(n.name + ".values", std::move(values))},
                {{"axis", p.integer("axis")}});
}

// The region's boxes lie along one axis of many: [N,1,4,1,1], [N,4,1,1] or [N,4].
ValueId cropped(const NetworkLayer& n, const PbMessage& p) {
  const Ints dims = n.g.dims(n.input(0)), of = n.g.dims(n.input(1));
  const std::size_t at = of.size() == 5 ? 2 : 1;
  if (of.size() < 2 || of.size() == 3 || of.size() > 5 || (of[at] != 4 && of[at] != 5))
    throw bad_input("regions of rank {}", of.size());
  const ValueId x = dims.size() == 5 && dims[0] == 1
                        ? n.g.op("squeeze", n.name + ".image", {n.input(0)}, {{"axes", Ints{0}}})
                        : n.input(0);
  CropResize how;
  if (const Ints sizes = p.integers("targetSize"); !sizes.empty()) {
    if (sizes.size() != 2) throw bad_input("a size of {} extents", sizes.size());
    how.height = sizes[0];
    how.width = sizes[1];
  }
  const std::int64_t mode = p.message("mode").integer("samplingMethod"),
                     form = p.message("boxIndicesMode").integer("boxMode");
  if (mode < 0 || mode > 3 || form < 0 || form > 3)
    throw bad_input("the sampling method {} of boxes of mode {}", mode, form);
  how.normalised = p.flag("normalizedCoordinates");
  how.scale = p.number("spatialScale");
  how.form = static_cast<BoxForm>(form);
  how.sampling = static_cast<Sampling>(mode);
  return crop_resize(n.g, n.name, x, n.g.reshape(n.name + ".boxes", n.input(1), {-1, of[at]}), how);
}

// Numbers of the layer, which an input overwrites.
std::vector<ValueId> suppressed(const NetworkLayer& n, const PbMessage& p) {
  BoxChoice how{.overlap = n.inputs.size() > 2 ? n.inputs[2] : n.number(p.number("iouThreshold")),
                .least = n.inputs.size() > 3 ? n.inputs[3] : n.number(p.number("scoreThreshold")),
                .most = p.integer("maxBoxes"),
                .by_class = p.flag("perClassSuppression")};
  if (n.inputs.size() > 4) {
    const Tensor* most = n.g.constant_of(n.inputs[4]);
    if (most == nullptr || most->numel() != 1)
      throw bad_input("a number of boxes that is computed is not supported");
    how.most = static_cast<std::int64_t>(load_as_double(*most, 0));
  }
  std::vector<ValueId> y = choose_boxes(n.g, n.name, n.input(0), n.input(1), how);
  for (const std::size_t i : {2U, 3U}) y[i] = n.f32(y[i]);
  return y;
}

ValueId single(const NetworkLayer& n) {
  const PbMessage& l = n.message;
  for (const auto& [field, op] : kComparisons)
    if (l.has(field)) return n.f32(comparison(n, field, op));
  if (l.has("notEqual"))
    return n.f32(n.g.op("not", n.name + ".not", {comparison(n, "notEqual", "equal")}));
  for (const auto& [field, op] : kLogic)
    if (l.has(field)) return n.f32(n.g.op(op, n.name, {truth(n, 0), truth(n, 1)}));
  if (l.has("logicalNot")) return n.f32(n.g.op("not", n.name, {truth(n, 0)}));
  if (l.has("whereBroadcastable"))
    return n.g.op("where", n.name, {truth(n, 0), n.input(1), n.input(2)});
  if (l.has("whereNonZero"))
    return n.f32(n.g.transpose(n.name + ".rows", n.g.op("non_zero", n.name, {n.input(0)}), {1, 0}));
  if (l.has("scatter")) return scatter(n, l.message("scatter"));
  if (l.has("gatherND")) return n.g.op("gather_nd", n.name, {n.input(0), n.integers(1)});
  if (l.has("scatterND"))
    return n.g.op("scatter_nd", n.name, {n.input(0), n.integers(1), n.input(2)},
                  {{"reduction", reduction(l.message("scatterND"))}});
  if (l.has("gatherAlongAxis"))
    return n.g.op("gather_elements", n.name, {n.input(0), n.integers(1)},
                  {{"axis", l.message("gatherAlongAxis").integer("axis")}});
  if (l.has("scatterAlongAxis")) {
    const PbMessage p = l.message("scatterAlongAxis");
    return n.g.op("scatter_elements", n.name, {n.input(0), n.integers(1), n.input(2)},
                  {{"axis", p.integer("axis")}, {"reduction", reduction(p)}});
  }
  if (l.has("argMax")) return arg(n, "arg_max", l.message("argMax"));
  if (l.has("argMin")) return arg(n, "arg_min", l.message("argMin"));
  if (l.has("argSort")) return arg_sort(n, l.message("argSort"));
  if (l.has("oneHot")) return one_hot(n, l.message("oneHot"));
  if (l.has("cropResize")) return cropped(n, l.message("cropResize"));
  return kAbsent;
}

}  // namespace

std::vector<ValueId> translate_selection(const NetworkLayer& n) {
  if (n.message.has("topK")) return top_k(n, n.message.message("topK"));
  if (n.message.has("NonMaximumSuppression"))
    return suppressed(n, n.message.message("NonMaximumSuppression"));
  const ValueId y = single(n);
  return y == kAbsent ? std::vector<ValueId>{} : std::vector{y};
}

}  // namespace etalon::coreml
