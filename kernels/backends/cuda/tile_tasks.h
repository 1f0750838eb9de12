// The products of an op as tasks of kernels/gemm/cuda_tile.h; a, b, c, y of a call may lie on the
// device, nothing is read here.
#pragma once

#include <vector>

#include "engine/backend/kernel.h"
#include "engine/backend/strided.h"
#include "engine/ops/conv.h"
#include "engine/ops/gemm.h"
#include "engine/ops/matmul.h"
#include "kernels/gemm/cuda_tile.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

inline Refusal refuse_tiles(const Problem& problem) {
  Contract c = *problem.contract;
  c.fma = true;
  if (problem.op->name != "conv") c.walk = Walk{};
  if (!(c == Contract::seq()))
    return "offers seq, fused or with fma=off, not " + short_name(*problem.contract);
  for (std::size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.has(i) && problem.input(i).dtype != DType::f32)
      return "input " + std::to_string(i) + " is " + std::string(name(problem.input(i).dtype)) +
             ", not f32";
  return std::nullopt;
}

inline std::vector<TileTask> tile_tasks(const KernelCall& call, float* y) {
  const auto floats = [&](std::size_t i) {
    return call.has(i) ? reinterpret_cast<const float*>(call.input(i).bytes().data()) : nullptr;
  };
  std::vector<TileTask> tasks;
  if (call.problem->op->name == "gemm") {
    const auto& params = call.params<GemmParams>();
    const GemmGeometry g = gemm_geometry(params, call.input(0).shape(), call.input(1).shape());
    TileTask t{.m = g.m,
               .n = g.n,
               .k = g.k,
               .a = floats(0),
               .b = floats(1),
               .y = y,
               .a_row = g.a_row,
               .a_col = g.a_col,
               .b_row = g.b_row,
               .b_col = g.b_col};
    t.alpha = params.alpha;
    if (call.has(2)) {
      const auto strides = broadcast_strides(call.input(2).shape(), Shape{g.m, g.n});
      t.c = floats(2);
      t.c_row = strides[0];
      t.c_col = strides[1];
      t.beta = params.beta;
    }
    tasks.push_back(t);
  } else if (call.problem->op->name == "matmul") {
    const MatMulGeometry g = matmul_geometry(call.input(0).shape(), call.input(1).shape());
    for (std::int64_t i = 0; i < g.batch.numel(); ++i)
      tasks.push_back({.m = g.m,
                       .n = g.n,
                       .k = g.k,
                       .a = floats(0) + strided_offset(i, g.batch, g.a_batch),
                       .b = floats(1) + strided_offset(i, g.batch, g.b_batch),
                       .y = y + i * g.m * g.n,
                       .a_row = g.a_row,
                       .a_col = g.a_col,
                       .b_row = g.b_row,
                       .b_col = g.b_col});
  } else {
    const ConvGeometry g =
        conv_geometry(call.params<ConvParams>(), call.input(0).shape(), call.input(1).shape());
    const std::int64_t points = g.window.out_points(), in_points = g.window.in_points();
    bool padded = false;
    for (const WindowAxis& a : g.window.axes)
      padded = padded || a.pad_begin > 0 || (a.out > 0 && a.at(a.out - 1, a.kernel - 1) >= a.in);
    for (std::int64_t group = 0; group < g.groups; ++group) {
      TileTask t{.m = g.group_out(),
                 .n = g.batch * points,
                 .k = g.k(),
                 .a = floats(1) + group * g.group_out() * g.k(),
                 .b = floats(0) + group * g.group_in() * in_points,
                 .y = y + group * g.group_out() * points,
                 .a_row = g.k(),
                 .a_col = 1};
      t.conv = true;
      t.padded = padded;
      t.window = g.window;
      t.bias = call.has(2) ? floats(2) + group * g.group_out() : nullptr;
      t.image = g.in_channels * in_points;
      t.out_image = g.out_channels * points;
      tasks.push_back(t);
    }
  }
  return tasks;
}

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
