#include "engine/ops/conv_transpose.h"

#include <algorithm>

#include "engine/ops/conv_shapes.h"

namespace etalon {
namespace {

std::int64_t entry(const Ints& values, int axis, int spatial, std::int64_t otherwise,
                   std::string_view what) {
  if (values.empty()) return otherwise;
  if (static_cast<int>(values.size()) != spatial)
    throw bad_input("{} has {} entries for {} spatial axes", what, values.size(), spatial);
  return values[static_cast<std::size_t>(axis)];
}

WindowAxis make_axis(const ConvTransposeParams& p, int i, int spatial, std::int64_t in,
                     std::int64_t kernel) {
  WindowAxis a;
  a.in = in;
  a.kernel = kernel;
  a.stride = entry(p.strides, i, spatial, 1, "strides");
  a.dilation = entry(p.dilations, i, spatial, 1, "dilations");
  if (a.kernel < 1 || a.stride < 1 || a.dilation < 1)
    throw bad_input("spatial axis {}: kernel {}, stride {} and dilation {} must be at least 1", i,
                    a.kernel, a.stride, a.dilation);
  const std::int64_t extra = entry(p.output_padding, i, spatial, 0, "output_padding");
  if (extra < 0 || (extra >= a.stride && extra >= a.dilation))
    throw bad_input("spatial axis {}: output_padding {} must be below stride {} or dilation {}", i,
                    extra, a.stride, a.dilation);
  const std::int64_t full =
      checked_add(checked_add(checked_mul(std::max<std::int64_t>(in - 1, 0), a.stride),
                              checked_mul(a.kernel - 1, a.dilation)),
                  1 + extra);
  const bool same = p.auto_pad == AutoPad::same_upper || p.auto_pad == AutoPad::same_lower;
  if (same || !p.output_shape.empty()) {
    a.out = entry(p.output_shape, i, spatial, checked_mul(in, a.stride), "output_shape");
    if (a.out < 0) throw bad_input("spatial axis {}: output_shape {} is negative", i, a.out);
    const std::int64_t total = std::max<std::int64_t>(0, full - a.out);
    a.pad_begin = p.auto_pad == AutoPad::same_upper ? total / 2 : total - total / 2;
    a.pad_end = total - a.pad_begin;
    return a;
  }
  if (p.auto_pad == AutoPad::explicit_pads) {
    a.pad_begin = entry(p.pads_begin, i, spatial, 0, "pads_begin");
    a.pad_end = entry(p.pads_end, i, spatial, 0, "pads_end");
    constexpr std::int64_t kMostPad = std::int64_t{1} << 60;
    if (std::max(a.pad_begin, a.pad_end) > kMostPad || std::min(a.pad_begin, a.pad_end) < -kMostPad)
      throw bad_input("spatial axis {}: pads {} and {} must lie within 2^60 of 0", i, a.pad_begin,
                      a.pad_end);
  }
  a.out = in == 0 ? 0 : checked_add(checked_add(full, -a.pad_begin), -a.pad_end);
  if (a.out < 0)
    throw bad_input("spatial axis {}: pads {} and {} leave nothing of {} output points", i,
                    a.pad_begin, a.pad_end, full);
  return a;
}

}  // namespace

ConvTransposeGeometry conv_transpose_geometry(const ConvTransposeParams& p, const Shape& x,
                                              const Shape& w) {
  if (w.rank() != x.rank())
    throw bad_input("x {} and w {} must have the same rank", to_string(x), to_string(w));
  const int spatial = x.rank() - 2;
  if (spatial < 1 || spatial > kMaxSpatial)
    throw bad_input("expected x [N,C,spatial...] with 1 to 3 spatial axes, got {}", to_string(x));
  if (p.groups < 1 || x[1] % p.groups != 0)
    throw bad_input("{} groups do not divide the {} channels of x {}", p.groups, x[1],
                    to_string(x));
  if (w[0] != x[1])
    throw bad_input("w {} starts with {} channels, x {} has {}", to_string(w), w[0], to_string(x),
                    x[1]);
  ConvTransposeGeometry g{x[0], x[1], checked_mul(w[1], p.groups), p.groups, {}};
  g.window.spatial = spatial;
  for (int i = 0; i < spatial; ++i)
    g.window.axes[static_cast<std::size_t>(kMaxSpatial - spatial + i)] =
        make_axis(p, i, spatial, x[2 + i], w[2 + i]);
  return g;
}

Shape ConvTransposeGeometry::output_shape() const {
  return window_output_shape(batch, out_channels, window);
}

const OpRow& conv_transpose_op() {
  static const OpRow row{
      .name = "conv_transpose",
      .summary = "Transposed convolution in 1, 2 or 3 dimensions.",
      .nature = OpNature::sum,
      .min_inputs = 2,
      .max_inputs = 3,
      .defaults = [] { return Params(ConvTransposeParams{}); },
      .infer =
          [](const Params& p, const InferInputs& in) {
            return conv_output_type(
                conv_transpose_geometry(p.as<ConvTransposeParams>(), in.shape(0), in.shape(1)), in);
          },
      .input_names = [] { return std::vector<std::string_view>{"x", "w", "b"}; },
  };
  return row;
}

}  // namespace etalon
