// Geometry of a window that slides over 1, 2 or 3 spatial axes: shared by convolution and pooling.
// A negative pad leaves so many elements of that side out. Kernels, strides and dilations are at
// most 2^40, pads within 2^60 of 0.
#pragma once

#include <array>

#include "engine/core/shape.h"
#include "engine/numerics/host_device.h"
#include "engine/ops/params.h"

namespace etalon {

inline constexpr int kMaxSpatial = 3;

// How padding is chosen. `explicit_pads` reads pads_begin and pads_end. same_upper puts the odd
// element at the end (TensorFlow, ONNX SAME_UPPER), same_lower at the begin; valid is no padding.
enum class AutoPad { explicit_pads, same_upper, same_lower, valid };

struct WindowAxis {
  std::int64_t in = 1, kernel = 1, stride = 1, dilation = 1, pad_begin = 0, pad_end = 0, out = 1;
  // The input coordinate under tap r of output o; outside [0, in) it is padding.
  ETALON_HD std::int64_t at(std::int64_t o, std::int64_t r) const {
    return o * stride - pad_begin + r * dilation;
  }
};

// Always three axes, missing ones (in front) of extent 1, so that one loop nest serves 1-D to 3-D.
struct Window {
  int spatial = 2;
  std::array<WindowAxis, kMaxSpatial> axes;
  ETALON_HD std::int64_t out_points() const { return axes[0].out * axes[1].out * axes[2].out; }
  ETALON_HD std::int64_t in_points() const { return axes[0].in * axes[1].in * axes[2].in; }
  ETALON_HD std::int64_t taps() const { return axes[0].kernel * axes[1].kernel * axes[2].kernel; }
};

struct WindowParams {
  Ints strides, dilations, pads_begin, pads_end;  // empty: 1, 1, 0, 0 on every axis
  AutoPad auto_pad = AutoPad::explicit_pads;
  bool ceil_mode =
      false;  // output extent rounded up; a last window must start inside input or left pad
  friend bool operator==(const WindowParams&, const WindowParams&) = default;
};

// `input` is [N, C, spatial...]; `kernel` the spatial extents of the window. Errors name the axis.
Window make_window(const Shape& input, std::span<const std::int64_t> kernel,
                   const WindowParams& params);

}  // namespace etalon
