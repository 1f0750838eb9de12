// The products of an op as a task of kernels/gemm/cuda_task.h; a, b, c, y of a call may lie on the
// device, nothing is read here.
#pragma once

#include <limits>
#include <string>

#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/gemm/cuda_task.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline TileTask tile_task(const KernelCall& call, float* y) {
  const auto floats = [&](std::size_t i) {
    return call.has(i) ? reinterpret_cast<const float*>(call.input(i).bytes().data()) : nullptr;
  };
  TileTask t;
  t.y = y;
  if (call.problem->op->name == "conv") {
    const ConvGeometry g =
        conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
    const std::int64_t points = g.window.out_points(), in_points = g.window.in_points();
    t.m = g.group_out();
    t.n = g.batch * points;
    t.k = g.k();
    t.a = floats(1);
    t.b = floats(0);
    t.a_row = g.k();
    t.a_col = 1;
    t.batch = Shape{g.groups};
    t.a_batch[0] = g.group_out() * g.k();
    t.b_batch[0] = g.group_in() * in_points;
    t.y_batch = g.group_out() * points;
    for (const WindowAxis& a : g.window.axes)
      t.padded = t.padded || a.pad_begin > 0 ||
                 (a.out > 0 && a.kernel > 0 && a.at(a.out - 1, a.kernel - 1) >= a.in);
    t.window = g.window;
    t.bias = floats(2);
    t.image = g.in_channels * in_points;
    t.out_image = g.out_channels * points;
    return t;
  }
  t.a = floats(0);
  t.b = floats(1);
  const auto place = [&t](const auto& g) {
    t.m = g.m, t.n = g.n, t.k = g.k;
    t.a_row = g.a_row, t.a_col = g.a_col;
    t.b_row = g.b_row, t.b_col = g.b_col;
    t.y_batch = g.m * g.n;
  };
  if (call.problem->op->name == "gemm") {
    const auto& params = call.params<GemmParams>();
    place(gemm_geometry(params, call.input(0).shape(), call.input(1).shape()));
    t.alpha = params.alpha;
    if (call.has(2)) {
      const auto strides = broadcast_strides(call.input(2).shape(), Shape{t.m, t.n});
      t.c = floats(2);
      t.c_row = strides[0];
      t.c_col = strides[1];
      t.beta = params.beta;
    }
  } else {
    const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
    place(g);
    t.batch = g.batch;
    t.a_batch = g.a_batch;
    t.b_batch = g.b_batch;
  }
  return t;
}

inline Refusal refuse_tiles(const Problem& problem) {
  Contract c = *problem.contract;
  c.fma = true;
  const bool conv = problem.op->name == "conv";
  if (!conv) c.walk = Walk{};
  if (!(c == Contract::seq()))
    return "offers seq, fused or with fma=off, not " + short_name(*problem.contract);
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  if (conv) {
    const ConvGeometry g = conv_geometry(problem.params->as<ConvParams>(), problem.input(0).shape,
                                         problem.input(1).shape);
    if (g.window.taps() < 1 || g.window.taps() > kTileMostTaps)
      return "takes windows of 1 to " + std::to_string(kTileMostTaps) + " taps";
    if (g.groups > 1 && g.group_out() == 1)
      return "computes 128 channels of a group at a time: a depthwise convolution has one";
  }
  // 32-bit numbers of rows, columns and tiles.
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).shape.numel() > kMost)
      return "takes tensors of fewer than 2^31 elements";
  if (problem.outputs[0].shape.numel() > kMost) return "takes tensors of fewer than 2^31 elements";
  return std::nullopt;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
