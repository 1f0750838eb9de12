#include "engine/ops/window.h"

#include <algorithm>

namespace etalon {
namespace {

// What plans and places are computed from stays far from the end of 64 bits.
constexpr std::int64_t kMostStep = std::int64_t{1} << 40, kMostPad = std::int64_t{1} << 60;

std::int64_t entry(const Ints& values, int axis, int spatial, std::int64_t otherwise,
                   std::string_view what) {
  if (values.empty()) return otherwise;
  if (static_cast<int>(values.size()) != spatial)
    throw bad_input("{} has {} entries for {} spatial axes", what, values.size(), spatial);
  return values[static_cast<std::size_t>(axis)];
}

}  // namespace

Window make_window(const Shape& input, std::span<const std::int64_t> kernel,
                   const WindowParams& params) {
  Window window;
  window.spatial = input.rank() - 2;
  if (window.spatial < 1 || window.spatial > kMaxSpatial)
    throw bad_input("expected an input [N,C,spatial...] with 1 to 3 spatial axes, got {}",
                    to_string(input));
  if (static_cast<int>(kernel.size()) != window.spatial)
    throw bad_input("a window of {} axes cannot slide over {}", kernel.size(), to_string(input));
  for (int i = 0; i < window.spatial; ++i) {
    WindowAxis& a = window.axes[static_cast<std::size_t>(kMaxSpatial - window.spatial + i)];
    a.in = input[2 + i];
    a.kernel = kernel[static_cast<std::size_t>(i)];
    a.stride = entry(params.strides, i, window.spatial, 1, "strides");
    a.dilation = entry(params.dilations, i, window.spatial, 1, "dilations");
    if (a.kernel < 1 || a.stride < 1 || a.dilation < 1)
      throw bad_input("spatial axis {}: kernel {}, stride {} and dilation {} must be at least 1", i,
                      a.kernel, a.stride, a.dilation);
    if (std::max({a.kernel, a.stride, a.dilation}) > kMostStep)
      throw bad_input("spatial axis {}: kernel {}, stride {} and dilation {} must be at most 2^40",
                      i, a.kernel, a.stride, a.dilation);
    const std::int64_t extent = checked_add(checked_mul(a.kernel - 1, a.dilation), 1);
    if (params.auto_pad == AutoPad::same_upper || params.auto_pad == AutoPad::same_lower) {
      a.out = a.in / a.stride + (a.in % a.stride != 0 ? 1 : 0);
      const std::int64_t total =
          std::max<std::int64_t>(0, checked_add(checked_mul(a.out - 1, a.stride), extent - a.in));
      a.pad_begin = params.auto_pad == AutoPad::same_upper ? total / 2 : total - total / 2;
      a.pad_end = total - a.pad_begin;
      continue;
    }
    if (params.auto_pad == AutoPad::explicit_pads) {
      a.pad_begin = entry(params.pads_begin, i, window.spatial, 0, "pads_begin");
      a.pad_end = entry(params.pads_end, i, window.spatial, 0, "pads_end");
      if (std::max(a.pad_begin, a.pad_end) > kMostPad ||
          std::min(a.pad_begin, a.pad_end) < -kMostPad)
        throw bad_input("spatial axis {}: pads {} and {} must lie within 2^60 of 0", i, a.pad_begin,
                        a.pad_end);
    }
    const std::int64_t padded = checked_add(checked_add(a.in, a.pad_begin), a.pad_end);
    if (padded < extent)
      throw bad_input("spatial axis {}: the window spans {} and the padded input only {}", i,
                      extent, padded);
    const std::int64_t room = padded - extent;
    a.out = room / a.stride + 1;
    if (params.ceil_mode && room % a.stride != 0 &&
        checked_mul(a.out, a.stride) < a.in + a.pad_begin)
      ++a.out;
  }
  return window;
}

}  // namespace etalon
