// Resize: samples x at other places along some axes, each axis for itself (separable).
//
// Per axis, output i is taken at a coordinate c of the input (n_in elements, n_out outputs, scale
// s, width w = s * n_in, which need not be an integer):
//   half_pixel              (i + 0.5) / s - 0.5
//   half_pixel_symmetric    n_in/2 * (1 - n_out/w) + (i + 0.5) / s - 0.5
//   pytorch_half_pixel      half_pixel, but -0.5 where w = 1
//   align_corners           i * (n_in - 1) / (w - 1), but 0 where w = 1
//   asymmetric              i / s
//   tf_half_pixel_for_nn    (i + 0.5) / s
//   tf_crop_and_resize      a*(n_in - 1) + i * (b - a) * (n_in - 1) / (w - 1), or, where w = 1,
//   that
//                           of i/(w-1) = 1/2, with [a, b] the roi of the axis; outside [0, n_in -
//                           1] the output is the extrapolation value
// Which elements are read hangs on c by jumps, so c is part of the definition and not of the
// contract: it is evaluated step by step as written, in f64, from scales as stored (f32) or, given
// sizes, from s = n_out / n_in; ONNX's reference does the same. Many frameworks take the steps in
// f32: coordinates = f32 does that, for sizes from scales too, and is a cause that a comparison can
// try.
//
// With f = floor(c), r = c - f, and indices held at the ends [0, n_in - 1] (edge):
//   nearest   one element: f or f + 1 by round_prefer_floor (r <= 1/2: f), round_prefer_ceil
//             (r < 1/2: f), floor, ceil. Bits are copied
//   linear    (1 - r) x[f] + r x[f+1]
//   cubic     sum of w_j x[f+j], j = -1..2, Keys' kernel with parameter a = cubic_coeff_a
// exclude_outside: weights of indices outside are zero and the rest is divided by its sum.
// antialias, where s < 1: the kernel is stretched by 1/s and its weights divided by their sum.
// Where r = 0 (without antialias) only x[f] is read, so that a NaN beside it stays away. An axis
// that does not change (same extent, s = 1, roi all of it) is left alone. Weights are real
// functions of r (and s): under `exact` the output is the real value rounded once; under other
// contracts each step of a weight is rounded to acc, and each axis is one sum in the contract's
// order, the last axis innermost.
//
// Sizes: floor(n_in * scale), or `sizes`; keep_aspect_ratio_policy not_larger, not_smaller takes
// for all axes the least, largest of sizes/n_in and rounds n_in times it, halves up. Nearest takes
// every type; linear and cubic floating ones. Errors: neither or both of scales and sizes, a scale
// that is not positive, an empty axis that shall grow. Source: ONNX Resize-19; Keys, "Cubic
// convolution interpolation for digital image processing" (IEEE TASSP 1981).
#pragma once

#include "engine/ops/op.h"

namespace etalon {

enum class ResizeMode { nearest, linear, cubic };
enum class ResizeCoordinates {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize
};
enum class NearestMode { round_prefer_floor, round_prefer_ceil, floor, ceil };
enum class AspectPolicy { stretch, not_larger, not_smaller };
enum class CoordinatePrecision { f64, f32 };

struct ResizeParams {
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinates coordinate_transformation_mode = ResizeCoordinates::half_pixel;
  NearestMode nearest_mode = NearestMode::round_prefer_floor;
  AspectPolicy keep_aspect_ratio_policy = AspectPolicy::stretch;
  float cubic_coeff_a = -0.75F;
  bool exclude_outside = false;
  bool antialias = false;
  float extrapolation_value = 0.0F;
  CoordinatePrecision coordinates = CoordinatePrecision::f64;
  Ints axes;  // empty: all
  // Where inputs 1 to 3 are not given.
  std::vector<float> roi;
  std::vector<float> scales;
  Ints sizes;
  template <class V>
  void visit(V& v) {
    v("mode", mode, {"nearest", "linear", "cubic"});
    v("coordinate_transformation_mode", coordinate_transformation_mode,
      {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric",
       "tf_half_pixel_for_nn", "tf_crop_and_resize"});
    v("nearest_mode", nearest_mode, {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
    v("keep_aspect_ratio_policy", keep_aspect_ratio_policy,
      {"stretch", "not_larger", "not_smaller"});
    v("cubic_coeff_a", cubic_coeff_a);
    v("exclude_outside", exclude_outside);
    v("antialias", antialias);
    v("extrapolation_value", extrapolation_value);
    v("coordinates", coordinates, {"f64", "f32"});
    v("axes", axes);
    v("roi", roi);
    v("scales", scales);
    v("sizes", sizes);
  }
};

// One axis: whether it changes, its scale and region.
struct ResizeAxis {
  std::int64_t in = 1, out = 1;
  double scale = 1, roi_begin = 0, roi_end = 1;
  bool changes = false;
};
std::array<ResizeAxis, kMaxRank> resize_axes(const ResizeParams& params, const InferInputs& in);

// The coordinate of output i.
double resize_coordinate(const ResizeParams& params, const ResizeAxis& axis, std::int64_t i);

const OpRow& resize_op();

}  // namespace etalon
