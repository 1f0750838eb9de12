// Images in other extents: Interpolate.
//
// Opset 1 names neither coordinates nor rounding: its plugins take them as asymmetric, or from the
// corners, and the element before. `simple` takes the element behind where an axis shrinks, the one
// before where it grows, so that the axes go one by one. Padding is of zeros, around what is read.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/openvino/layer.h"
#include "importers/formats/translate.h"

namespace etalon::openvino {
namespace {

std::string part(const Layer& l, const char* role) { return l.name + "." + role; }

// x with the layer's own padding.
ValueId padded(const Layer& l) {
  Ints pads;
  bool any = false;
  const auto rank = static_cast<std::size_t>(l.rank(0));
  for (const char* key : {"pads_begin", "pads_end"}) {
    Ints side = l.integers(key);
    if (side.size() > rank) throw bad_input("{} {} for rank {}", side.size(), key, rank);
    side.resize(rank, 0);
    any = any || std::ranges::any_of(side, [](std::int64_t p) { return p != 0; });
    pads.insert(pads.end(), side.begin(), side.end());
  }
  return any ? l.g.op("pad", part(l, "padded"), {l.input(0)}, {{"pads", pads}}) : l.input(0);
}

// The extents or the factors of the axes; an input where they hang on the run.
struct Target {
  Ints axes, sizes;
  std::vector<float> scales;
  ValueId input = kAbsent;
  bool by_sizes = true;
};

Target target_of(const Layer& l) {
  Target t;
  const bool newest = l.version == "opset11", oldest = l.version == "opset1";
  t.by_sizes = oldest || l.text("shape_calculation_mode", "sizes") == "sizes";
  const std::size_t at = oldest || newest || t.by_sizes ? 1 : 2, axes_at = newest ? 2 : 3;
  if (oldest)
    t.axes = l.integers("axes");
  else if (l.has(axes_at))
    t.axes = l.constant(axes_at);
  else
    for (int i = 0; i < l.rank(0); ++i) t.axes.push_back(i);
  for (std::int64_t& a : t.axes) a = normalize_axis(a, l.rank(0));
  if (t.by_sizes && l.known(at)) {
    t.sizes = l.constant(at);
  } else if (t.by_sizes) {
    t.input = l.integers_of(at);
  } else if (const Tensor* c = l.g.constant_of(l.input(at)); c != nullptr) {
    const Tensor scales = as_f32(*c);
    const auto data = scales.data<float>();
    t.scales.assign(data.begin(), data.end());
  } else {
    t.input = l.input(at);
  }
  if (t.input == kAbsent && std::max(t.sizes.size(), t.scales.size()) != t.axes.size())
    throw bad_input("{} extents of {} axes", std::max(t.sizes.size(), t.scales.size()),
                    t.axes.size());
  return t;
}

ValueId resized(const Layer& l, ValueId x, const Target& t, Fields f) {
  f.emplace_back("axes", t.axes);
  if (t.input != kAbsent)
    return l.g.op("resize", l.name,
                  t.by_sizes ? std::vector<ValueId>{x, kAbsent, kAbsent, t.input}
                             : std::vector<ValueId>{x, kAbsent, t.input},
                  f);
  if (t.by_sizes)
    f.emplace_back("sizes", t.sizes);
  else
    f.emplace_back("scales", t.scales);
  return l.g.op("resize", l.name, {x}, f);
}

// Each axis by itself: those that shrink take the element behind.
ValueId nearest_simple(const Layer& l, ValueId x, const Target& t, const Fields& f) {
  for (std::size_t i = 0; i < t.axes.size(); ++i) {
    bool shrinks = false;
    if (t.input != kAbsent) throw bad_input("nearest_mode simple to extents that hang on the run");
    if (t.by_sizes) {
      const std::int64_t extent = l.extent(0, static_cast<int>(t.axes[i]));
      if (x != l.input(0) && i == 0 && l.g.known(x) && l.g.dims(x) != l.dims(0))
        throw bad_input("nearest_mode simple with padding");
      shrinks = t.sizes[i] < extent;
    } else {
      shrinks = t.scales[i] < 1;
    }
    Target one;
    one.by_sizes = t.by_sizes;
    one.axes = {t.axes[i]};
    if (t.by_sizes)
      one.sizes = {t.sizes[i]};
    else
      one.scales = {t.scales[i]};
    Fields by = f;
    by.emplace_back("nearest_mode", std::string(shrinks ? "ceil" : "floor"));
    x = resized(l, x, one, by);
  }
  return x;
}

// Corners are those of the extents in whole elements, not of their factors' products.
void whole_extents(const Layer& l, Target& t) {
  if (t.by_sizes || t.input != kAbsent) return;
  for (const char* key : {"pads_begin", "pads_end"})
    for (const std::int64_t p : l.integers(key))
      if (p != 0) throw bad_input("factors between corners with padding");
  for (std::size_t i = 0; i < t.axes.size(); ++i) {
    const double size = static_cast<double>(l.extent(0, static_cast<int>(t.axes[i]))) *
                        static_cast<double>(t.scales[i]);
    if (!(size >= 0) || size > 1 << 30) throw bad_input("an extent of {}", size);
    t.sizes.push_back(static_cast<std::int64_t>(size));
  }
  t.by_sizes = true;
}

ValueId interpolate(const Layer& l) {
  std::string mode = l.text("mode", "nearest");
  if (mode == "linear_onnx") mode = "linear";
  if (mode != "linear" && mode != "nearest" && mode != "cubic")
    throw bad_input("interpolation {} is not supported", printable(mode));
  Target t = target_of(l);
  if (l.text("coordinate_transformation_mode", "") == "align_corners") whole_extents(l, t);
  const ValueId x = padded(l);
  if (l.version == "opset1") {
    const bool corners = l.flag("align_corners", true);
    l.flag("antialias", false);  // its plugins do not read it
    const char* how = corners ? "align_corners" : "asymmetric";
    l.g.note(fmt::format("Interpolate of opset 1: coordinates {}, nearest by floor", how));
    return resized(l, x, t,
                   {{"mode", mode},
                    {"coordinate_transformation_mode", std::string(how)},
                    {"nearest_mode", std::string("floor")}});
  }
  Fields f{
      {"mode", mode},
      {"coordinate_transformation_mode", l.text("coordinate_transformation_mode", "half_pixel")},
      {"cubic_coeff_a", l.number("cube_coeff", -0.75F)}};
  const bool soft = l.flag("antialias", false);
  if (l.text("mode", "") == "linear") f.emplace_back("antialias", soft);
  const std::string nearest = l.text("nearest_mode", "round_prefer_floor");
  if (mode == "nearest" && nearest == "simple") return nearest_simple(l, x, t, f);
  if (mode == "nearest") f.emplace_back("nearest_mode", nearest);
  return resized(l, x, t, f);
}

}  // namespace

std::vector<ValueId> translate_resize(const Layer& l) {
  if (l.type == "Interpolate") return {interpolate(l)};
  return {};
}

}  // namespace etalon::openvino
