// Depthwise convolution on a GPU, contract seq: one input channel a group, an output a thread.
//
// Same bits as the definition (definition.h): taps in sequence, one fused chain, what lies in the
// padding is no term, the bias is added behind it.
// Limit: memory, by far; every input is read from the first cache once for each tap. A block's
// outputs lie in one plane, so that its weights are one address for all threads.
#pragma once

#include "engine/backend/kernel.h"
#include "engine/numerics/seq_f32.h"
#include "engine/ops/conv.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct DepthwiseTask {
  const float *x = nullptr, *w = nullptr, *bias = nullptr;
  float* y = nullptr;
  std::uint32_t planes = 0, channels = 1, of_input = 1;  // output planes and channels; outputs of
                                                         // an input channel
  std::uint32_t points = 0, width = 1;                   // of an output plane
  int in_height = 1, in_width = 1, kernel_height = 1, kernel_width = 1;
  int stride_y = 1, stride_x = 1, dilation_y = 1, dilation_x = 1, pad_y = 0, pad_x = 0;

  ETALON_HD std::uint32_t threads() const { return points <= 64 ? 64 : 256; }  // of a block
  ETALON_HD std::uint32_t parts() const { return (points + threads() - 1) / threads(); }
};

inline DepthwiseTask depthwise_task(const KernelCall& call) {
  const ConvGeometry g =
      conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
  const WindowAxis &h = g.window.axes[1], &w = g.window.axes[2];
  const auto floats = [&](std::size_t i) {
    return call.has(i) ? reinterpret_cast<const float*>(call.input(i).bytes().data()) : nullptr;
  };
  DepthwiseTask t;
  t.x = floats(0);
  t.w = floats(1);
  t.bias = floats(2);
  t.y = reinterpret_cast<float*>(const_cast<std::byte*>(call.output(0).bytes().data()));
  t.planes = static_cast<std::uint32_t>(g.batch * g.out_channels);
  t.channels = static_cast<std::uint32_t>(g.out_channels);
  t.of_input = static_cast<std::uint32_t>(g.group_out());
  t.points = static_cast<std::uint32_t>(g.window.out_points());
  t.width = static_cast<std::uint32_t>(w.out);
  const auto axis = [](const WindowAxis& a, int& in, int& kernel, int& stride, int& dilation,
                       int& pad) {
    in = static_cast<int>(a.in);
    kernel = static_cast<int>(a.kernel);
    stride = static_cast<int>(a.stride);
    dilation = static_cast<int>(a.dilation);
    pad = static_cast<int>(a.pad_begin);
  };
  axis(h, t.in_height, t.kernel_height, t.stride_y, t.dilation_y, t.pad_y);
  axis(w, t.in_width, t.kernel_width, t.stride_x, t.dilation_x, t.pad_x);
  return t;
}

inline Refusal refuse_depthwise(const Problem& problem) {
  if (!(*problem.contract == Contract::seq()))
    return "offers seq, not " + short_name(*problem.contract);
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                       problem.input(1).shape);
  if (g.group_in() != 1 || g.groups == 1) return "takes one input channel a group, and groups";
  if (g.window.axes[0].in != 1 || g.window.axes[0].kernel != 1 || g.window.axes[0].out != 1)
    return "takes windows of one or two axes";
  constexpr std::int64_t kMost = std::int64_t{1} << 30;
  for (const Shape& s : {problem.input(0).shape, problem.outputs[0].shape})
    if (s.numel() > kMost) return "takes tensors of up to 2^30 elements";
  return std::nullopt;
}

// Kernel: rows and columns of a window, 0 where they are not known when this is compiled. A part is
// a block's share of a plane.
template <int Kernel>
ETALON_HD void run_depthwise(const DepthwiseTask& t, std::uint32_t block, int tid) {
  const std::uint32_t parts = t.parts(), plane = block / parts,
                      point = block % parts * t.threads() + static_cast<std::uint32_t>(tid);
  if (point >= t.points) return;
  const std::uint32_t channel = plane % t.channels, image = plane / t.channels,
                      inputs = t.channels / t.of_input, row = point / t.width;
  const int y0 = static_cast<int>(row) * t.stride_y - t.pad_y,
            x0 = static_cast<int>(point - row * t.width) * t.stride_x - t.pad_x;
  const int height = Kernel > 0 ? Kernel : t.kernel_height,
            width = Kernel > 0 ? Kernel : t.kernel_width;
  const float* const x =
      t.x + std::int64_t{image * inputs + channel / t.of_input} * t.in_height * t.in_width;
  const float* w = t.w + std::int64_t{channel} * height * width;
  float chain = 0;
  const auto row_of_taps = [&](int ry) {
    const int y = y0 + ry * t.dilation_y;
    const bool row_there = y >= 0 && y < t.in_height;
    const auto tap = [&](int rx) {
      const int at = x0 + rx * t.dilation_x;
      if (row_there && at >= 0 && at < t.in_width)
        chain = fma_f32(x[y * t.in_width + at], w[ry * width + rx], chain);
    };
    if constexpr (Kernel > 0) {
      ETALON_UNROLL
      for (int rx = 0; rx < Kernel; ++rx) tap(rx);
    } else {
      for (int rx = 0; rx < width; ++rx) tap(rx);
    }
  };
  if constexpr (Kernel > 0) {
    ETALON_UNROLL
    for (int ry = 0; ry < Kernel; ++ry) row_of_taps(ry);
  } else {
    for (int ry = 0; ry < height; ++ry) row_of_taps(ry);
  }
  if (t.bias != nullptr) chain = chain + t.bias[channel];
  t.y[std::int64_t{plane} * t.points + point] = canonical(chain);
}

// f.template operator()<Kernel>()
template <class F>
void with_depthwise_kernel(const DepthwiseTask& t, F&& f) {
  if (t.kernel_height == 3 && t.kernel_width == 3) return f.template operator()<3>();
  if (t.kernel_height == 5 && t.kernel_width == 5) return f.template operator()<5>();
  f.template operator()<0>();
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
