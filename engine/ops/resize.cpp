#include "engine/ops/resize.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/numerics/element.h"
#include "engine/ops/ints_input.h"

namespace etalon {
namespace {

std::vector<double> doubles_or(const InferInputs& in, std::size_t input,
                               const std::vector<float>& param) {
  if (!in.has(input)) return {param.begin(), param.end()};
  const Tensor& t = in.constant(input);
  if (!is_floating(t.dtype()))
    throw bad_input("input {} must be floating, got {}", input, to_string(t.type()));
  std::vector<double> values;
  for (std::int64_t i = 0; i < t.numel(); ++i) values.push_back(load_as_double(t, i));
  return values;
}

std::int64_t extent_of(double size, int axis) {
  if (!(size >= 0 && size < 0x1p48))
    throw bad_input("axis {} would have {} elements; check the scales", axis, size);
  return static_cast<std::int64_t>(size);
}

// T: the type in which the steps are taken.
template <class T>
T coordinate(ResizeCoordinates mode, const ResizeAxis& a, std::int64_t i) {
  const T s = static_cast<T>(a.scale), in = static_cast<T>(a.in), x = static_cast<T>(i);
  const T width = s * in, half = static_cast<T>(0.5), one = static_cast<T>(1);
  switch (mode) {
    case ResizeCoordinates::asymmetric:
      return x / s;
    case ResizeCoordinates::tf_half_pixel_for_nn:
      return (x + half) / s;
    case ResizeCoordinates::align_corners:
      return width == one ? T{0} : x * (in - one) / (width - one);
    case ResizeCoordinates::pytorch_half_pixel:
      return width == one ? -half : (x + half) / s - half;
    case ResizeCoordinates::half_pixel_symmetric: {
      const T adjustment = static_cast<T>(a.out) / width;
      return in / 2 * (one - adjustment) + (x + half) / s - half;
    }
    case ResizeCoordinates::tf_crop_and_resize: {
      const T begin = static_cast<T>(a.roi_begin), end = static_cast<T>(a.roi_end);
      const T along = width == one ? (end - begin) * (in - one) / 2
                                   : x * (end - begin) * (in - one) / (width - one);
      return along + begin * (in - one);
    }
    case ResizeCoordinates::half_pixel:
      break;
  }
  return (x + half) / s - half;
}

}  // namespace

double resize_coordinate(const ResizeParams& params, const ResizeAxis& axis, std::int64_t i) {
  const auto mode = params.coordinate_transformation_mode;
  if (params.coordinates == CoordinatePrecision::f32)
    return static_cast<double>(coordinate<float>(mode, axis, i));
  return coordinate<double>(mode, axis, i);
}

std::array<ResizeAxis, kMaxRank> resize_axes(const ResizeParams& params, const InferInputs& in) {
  const Shape& x = in.shape(0);
  Ints axes = normalized_axes(params.axes, x.rank());
  if (axes.empty()) {
    axes.resize(static_cast<std::size_t>(x.rank()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  const std::vector<double> roi = doubles_or(in, 1, params.roi);
  const std::vector<double> scales = doubles_or(in, 2, params.scales);
  Ints sizes = ints_or(in, 3, params.sizes);
  const std::size_t n = axes.size();
  if (scales.empty() == sizes.empty())
    throw bad_input("give either scales or sizes, got {}", sizes.empty() ? "neither" : "both");
  if ((scales.empty() ? sizes.size() : scales.size()) != n)
    throw bad_input("{} {} are given for {} axes of x {}",
                    scales.empty() ? sizes.size() : scales.size(),
                    scales.empty() ? "sizes" : "scales", n, to_string(x));
  const bool crop = params.coordinate_transformation_mode == ResizeCoordinates::tf_crop_and_resize;
  if (crop && roi.size() != 2 * n)
    throw bad_input("the roi needs a begin and an end for each of {} axes, got {} numbers", n,
                    roi.size());

  std::array<ResizeAxis, kMaxRank> result;
  for (int i = 0; i < x.rank(); ++i)
    result[static_cast<std::size_t>(i)] = {.in = x[i], .out = x[i]};
  double common = 0;
  if (!sizes.empty() && params.keep_aspect_ratio_policy != AspectPolicy::stretch)
    for (std::size_t i = 0; i < n; ++i) {
      const double s =
          static_cast<double>(sizes[i]) / static_cast<double>(x[static_cast<int>(axes[i])]);
      common = i == 0                                                        ? s
               : params.keep_aspect_ratio_policy == AspectPolicy::not_larger ? std::min(common, s)
                                                                             : std::max(common, s);
    }
  for (std::size_t i = 0; i < n; ++i) {
    const int axis = static_cast<int>(axes[i]);
    ResizeAxis& a = result[static_cast<std::size_t>(axis)];
    const auto extent = static_cast<double>(a.in);
    if (!scales.empty()) {
      a.scale = scales[i];
      if (!(a.scale > 0) || !is_finite(a.scale))
        throw bad_input("the scale of axis {} is {}; it must be positive", axis, a.scale);
      // The scale is an f32, so its product with an extent below 2^24 is exact in f64; in f32 it
      // may round up to the next integer (5 * 1.8 becomes 9), which is one more row.
      const double size =
          params.coordinates == CoordinatePrecision::f32
              ? static_cast<double>(static_cast<float>(a.in) * static_cast<float>(a.scale))
              : extent * a.scale;
      a.out = extent_of(std::floor(size), axis);
    } else if (common > 0) {
      a.scale = common;
      a.out = extent_of(std::floor(extent * common + 0.5), axis);
    } else {
      a.out = sizes[i];
      if (a.out < 0) throw bad_input("axis {} would have {} elements", axis, a.out);
      a.scale = static_cast<double>(a.out) / extent;
    }
    if (a.in == 0 && a.out > 0)
      throw bad_input("axis {} is empty and cannot grow to {}", axis, a.out);
    if (crop) {
      a.roi_begin = roi[i];
      a.roi_end = roi[n + i];
    }
    a.changes = a.in != a.out || a.scale != 1 || a.roi_begin != 0 || a.roi_end != 1;
  }
  return result;
}

const OpRow& resize_op() {
  static const OpRow row{
      .name = "resize",
      .summary = "Samples a tensor at other places: nearest, linear or cubic.",
      .nature = OpNature::composite,
      .max_inputs = 4,
      .defaults = [] { return Params(ResizeParams{}); },
      .infer =
          [](const Params& params, const InferInputs& in) {
            const auto& p = params.as<ResizeParams>();
            if (p.mode != ResizeMode::nearest && !is_floating(in.dtype(0)))
              throw bad_input("linear and cubic are defined on floating types, got {}; cast x",
                              name(in.dtype(0)));
            if (p.mode == ResizeMode::nearest && p.antialias)
              throw bad_input("antialias has no meaning for nearest");
            const auto axes = resize_axes(p, in);
            Ints dims;
            for (int i = 0; i < in.shape(0).rank(); ++i)
              dims.push_back(axes[static_cast<std::size_t>(i)].out);
            return std::vector<TensorType>{
                {in.dtype(0), Shape(std::span<const std::int64_t>(dims))}};
          },
      .input_names = [] { return std::vector<std::string_view>{"x", "roi", "scales", "sizes"}; },
  };
  return row;
}

}  // namespace etalon
