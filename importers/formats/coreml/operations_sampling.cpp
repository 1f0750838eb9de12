// MIL's operations that sample images: resized, at the places of a grid or an affine map, cut into
// regions.
#include <algorithm>

#include "engine/core/error.h"
#include "importers/containers/bytes.h"
#include "importers/formats/composed.h"
#include "importers/formats/coreml/boxes.h"
#include "importers/formats/coreml/program.h"
#include "importers/formats/sampling.h"
#include "importers/formats/scalar.h"

namespace etalon::coreml {
namespace {

using Values = std::vector<ValueId>;

Values upsampled(Operation& o) {
  const ValueId x = o.value("x");
  const bool nearest = o.type == "upsample_nearest_neighbor";
  const int rank = o.g.rank(x);
  if (rank < 3) throw bad_input("an image of rank {}", rank);
  const bool corners = !nearest && o.flag("align_corners", true),
             halves = !nearest && o.flag("half_pixel_centers", !corners);
  if (corners && halves) throw bad_input("corners that are aligned by their centres");
  Fields f{{"mode", std::string(nearest ? "nearest" : "linear")},
           {"axes", Ints{rank - 2, rank - 1}},
           {"coordinate_transformation_mode", std::string(corners  ? "align_corners"
                                                          : halves ? "half_pixel"
                                                                   : "asymmetric")}};
  const std::vector<float> scales{o.number("scale_factor_height", 1),
                                  o.number("scale_factor_width", 1)};
  const Ints dims = o.g.dims(x);
  const std::int64_t height = dims[dims.size() - 2], width = dims.back();
  // Linear: the scales are those of the extents, which are rounded down.
  if (!nearest && height > 0 && width > 0)
    f.emplace_back("sizes", Ints{static_cast<std::int64_t>(scales[0] * static_cast<float>(height)),
                                 static_cast<std::int64_t>(scales[1] * static_cast<float>(width))});
  else
    f.emplace_back("scales", scales);
  if (nearest) f.emplace_back("nearest_mode", std::string("floor"));
  o.g.note(
      fmt::format("{}: {}", o.type, corners ? "corners are aligned" : "corners are not aligned"));
  return {o.g.op("resize", o.name, {x}, f)};
}

Values resized_to(Operation& o) {
  const ValueId x = o.value("x");
  const bool linear = o.type == "resize_bilinear";
  const std::int64_t height = o.integer("target_size_height", 1),
                     width = o.integer("target_size_width", 1), rank = o.g.rank(x);
  if (rank < 3) throw bad_input("a resize of rank {}", rank);
  std::string how = "asymmetric";
  if (linear) {
    const std::string mode = o.text("sampling_mode", "DEFAULT");
    const bool one = height == 1 || width == 1;
    if (mode == "UNALIGN_CORNERS")
      how = "half_pixel";
    else if (mode == "STRICT_ALIGN_CORNERS" || (mode == "ALIGN_CORNERS" && !one))
      how = "align_corners";
    else if (mode != "DEFAULT")
      throw bad_input("a resize of the sampling mode {} is not supported", mode);
  }
  o.g.note(fmt::format("resize: coordinates {}", how));
  return {o.g.op("resize", o.name, {x},
                 {{"mode", std::string(linear ? "linear" : "nearest")},
                  {"nearest_mode", std::string("floor")},
                  {"sizes", Ints{height, width}},
                  {"axes", Ints{rank - 2, rank - 1}},
                  {"coordinate_transformation_mode", how}})};
}

// The last axes of `shape`; 0 keeps an extent.
Values resized(Operation& o) {
  const ValueId x = o.value("x");
  const std::int64_t count = o.integer("resized_dims", 0), rank = o.g.rank(x);
  const bool linear = o.text("interpolation_mode", "LINEAR") == "LINEAR";
  const std::string mode = o.text("sampling_mode", "DEFAULT");
  if (count < 0 || count > rank) throw bad_input("{} axes resized of {}", count, rank);
  if (count == 0) return {o.g.op("identity", o.name, {x})};
  Ints axes;
  for (std::int64_t a = rank - count; a < rank; ++a) axes.push_back(a);
  ValueId sizes = kAbsent;
  bool single = true;
  if (o.constant("shape") != nullptr) {
    Ints shape = o.integers("shape");
    if (static_cast<std::int64_t>(shape.size()) < count)
      throw bad_input("{} axes resized by {} extents", count, shape.size());
    shape.erase(shape.begin(), shape.end() - count);
    for (std::size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == 0) shape[i] = known_extent(o.g, x, static_cast<int>(axes[i]));
    single = std::ranges::count(shape, 1) > 0;
    sizes = o.ints("sizes", shape);
  } else {
    o.g.note("resize: an extent that is computed is taken to be none of 0");
    sizes = o.g.op("slice", o.part("sizes"), {o.i64("shape", o.value("shape"))},
                   {{"starts", Ints{-count}}, {"ends", Ints{kFar}}, {"axes", Ints{0}}});
  }
  std::string how = "asymmetric";
  if (linear && mode == "UNALIGN_CORNERS")
    how = "half_pixel";
  else if (linear && (mode == "STRICT_ALIGN_CORNERS" || (mode == "ALIGN_CORNERS" && !single)))
    how = "align_corners";
  else if (mode != "DEFAULT")
    throw bad_input("a resize of the sampling mode {} is not supported", printable(mode));
  o.g.note(fmt::format("resize: coordinates {}", how));
  return {o.g.op("resize", o.name, {x, kAbsent, kAbsent, sizes},
                 {{"mode", std::string(linear ? "linear" : "nearest")},
                  {"nearest_mode", std::string("floor")},
                  {"axes", axes},
                  {"coordinate_transformation_mode", how}})};
}

Values cropped_and_resized(Operation& o) {
  const ValueId x = o.value("x"), boxes = o.value("roi");
  const Ints of = o.g.dims(boxes);
  const std::size_t at = of.size() == 5 ? 2 : 1;  // [N,1,k,1,1], since iOS 17 [N,k]
  if (of.size() != 5 && of.size() != 2) throw bad_input("regions of rank {}", of.size());
  CropResize how;
  how.height = o.integer("target_height", 1);
  how.width = o.integer("target_width", 1);
  how.normalised = o.flag("normalized_coordinates", false);
  how.scale = o.number("spatial_scale", 1);
  const auto choose = [](std::string_view text, std::initializer_list<std::string_view> names) {
    const auto found = std::find(names.begin(), names.end(), text);
    if (found == names.end()) throw bad_input("regions of the mode {} are not supported", text);
    return found - names.begin();
  };
  how.form = static_cast<BoxForm>(choose(o.text("box_coordinate_mode", "CORNERS_HEIGHT_FIRST"),
                                         {"CORNERS_HEIGHT_FIRST", "CORNERS_WIDTH_FIRST",
                                          "CENTER_SIZE_HEIGHT_FIRST", "CENTER_SIZE_WIDTH_FIRST"}));
  how.sampling = static_cast<Sampling>(
      choose(o.text("sampling_mode", "DEFAULT"),
             {"STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "DEFAULT", "OFFSET_CORNERS"}));
  const DType type = o.g.dtype(x);
  const ValueId y = crop_resize(
      o.g, o.part("regions"), o.cast("x", x, DType::f32),
      o.g.reshape(o.part("boxes"), o.cast("roi", boxes, DType::f32), {-1, of[at]}), how);
  return {o.cast("out", y, type)};
}

GridSampling sampling_of(const Operation& o, bool corners) {
  GridSampling how{.corners = corners};
  const std::string mode = o.text("sampling_mode", "bilinear"),
                    outside = o.text("padding_mode", "constant");
  if (mode == "nearest")
    how.mode = GridSampling::Mode::nearest;
  else if (mode != "bilinear")
    throw bad_input("{} sampling is not supported", printable(mode));
  if (outside == "border")
    how.outside = GridSampling::Outside::border;
  else if (outside == (corners ? "reflection" : "symmetric"))
    how.outside = GridSampling::Outside::reflection;
  else if (outside != "constant" || o.number("padding_value", 0) != 0)
    throw bad_input("what lies outside an image as {} {} is not supported", printable(outside),
                    o.number("padding_value", 0));
  return how;
}

Values resampled(Operation& o) {
  const ValueId x = o.value("x");
  const DType type = o.g.dtype(x);
  bool corners = o.flag("align_corners", true);
  const std::string mode = o.text("coordinates_mode", "normalized_minus_one_to_one");
  ValueId grid = o.cast("grid", o.value("coordinates"), DType::f32);
  const auto scaled = [&](float x_by, float y_by) {
    const ValueId by = o.g.constant(o.part("by"), Tensor::of<float>({2}, {x_by, y_by}));
    return o.g.op(
        "sub", o.part("normal"),
        {o.g.op("mul", o.part("scaled"), {grid, by}), o.g.constant(o.part("one"), scalar_f32(1))});
  };
  if (mode == "normalized_zero_to_one") {
    grid = scaled(2, 2);
  } else if (mode == "unnormalized") {
    // Numbers of pixels, whose centres are whole.
    const std::int64_t h = known_extent(o.g, x, 2), w = known_extent(o.g, x, 3);
    if (h < 2 || w < 2) throw bad_input("an image of {} by {} sampled by its pixels", h, w);
    grid = scaled(2 / static_cast<float>(w - 1), 2 / static_cast<float>(h - 1));
    corners = true;
  } else if (mode != "normalized_minus_one_to_one") {
    throw bad_input("coordinates {} are not supported", printable(mode));
  }
  return {o.cast(
      "typed",
      grid_sample(o.g, o.name, o.cast("image", x, DType::f32), grid, sampling_of(o, corners)),
      type)};
}

Values affine(Operation& o) {
  const ValueId x = o.value("x");
  const DType type = o.g.dtype(x);
  const std::int64_t batch = known_extent(o.g, x, 0), height = o.integer("output_height", 1),
                     width = o.integer("output_width", 1);
  const bool corners = o.flag("align_corners", true);
  if (o.text("coordinates_mode", "normalized_minus_one_to_one") != "normalized_minus_one_to_one")
    throw bad_input("coordinates {} are not supported", printable(o.text("coordinates_mode", "")));
  ValueId matrix = o.g.reshape(o.part("matrix"),
                               o.cast("f32", o.value("transform_matrix"), DType::f32), {-1, 2, 3});
  if (known_extent(o.g, matrix, 0) != batch)
    matrix = o.g.op("expand", o.part("matrices"), {matrix}, {{"shape", Ints{batch, 2, 3}}});
  const ValueId grid = affine_grid(o.g, o.part("grid"), matrix, {height, width}, corners);
  return {o.cast(
      "typed",
      grid_sample(o.g, o.name, o.cast("image", x, DType::f32), grid, sampling_of(o, corners)),
      type)};
}

}  // namespace

std::vector<ValueId> translate_sampling(Operation& o) {
  constexpr OperationRow kRows[] = {{"upsample_nearest_neighbor", upsampled},
                                    {"upsample_bilinear", upsampled},
                                    {"resize_bilinear", resized_to},
                                    {"resize_nearest_neighbor", resized_to},
                                    {"resize", resized},
                                    {"crop_resize", cropped_and_resized},
                                    {"resample", resampled},
                                    {"affine", affine}};
  return translate_among(kRows, o);
}

}  // namespace etalon::coreml
