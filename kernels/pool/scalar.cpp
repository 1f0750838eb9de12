// Pools on f32, contract seq, for machines without AVX2: one output after another, its taps inside
// the input row-major, as the definition walks them. Pools need no fused multiply-add, so the bits
// ask for nothing that SSE2 lacks; what is left out is the test of every tap.
#include <type_traits>
#include <vector>

#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/pool.h"
#include "kernels/gemm/refuse.h"
#include "kernels/pool/axis_taps.h"
#include "kernels/pool/fast.h"

namespace etalon {
namespace {

// NaN wins and a tie keeps the first.
struct Maximum {
  float value = -static_cast<float>(kInfinity);
  void take(float x) {
    if (value == value && (x > value || x != x)) value = x;
  }
};
struct Sum {
  float value = 0;
  void take(float x) { value += x; }
};

template <bool kAverage>
void run(const KernelCall& call) {
  if (!kAverage && !call.truth.empty()) return run_max_pool_definition(call);
  if (call.output(0).numel() == 0) return;
  const Shape& shape = call.input(0).shape();
  PoolGeometry g;
  std::vector<float> divisors;
  if constexpr (kAverage) {
    g = pool_geometry(call.params<AvgPoolParams>(), shape);
    divisors = average_divisors(g, call.params<AvgPoolParams>());
  } else {
    g = pool_geometry(call.params<MaxPoolParams>(), shape);
  }
  const auto& [d, h, w] = g.window.axes;
  const AxisTaps depth(d), height(h), width(w);
  const std::int64_t in = g.window.in_points(), out = g.window.out_points();
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const std::int64_t in_h = h.in, in_w = w.in, out_w = w.out, out_hw = h.out * w.out;
  const auto row_of_outputs = [&](std::int64_t row) {  // one (plane, z, y)
    const std::int64_t plane = row / (d.out * h.out), oz = row / h.out % d.out, oy = row % h.out;
    for (std::int64_t ox = 0; ox < out_w; ++ox) {
      std::conditional_t<kAverage, Sum, Maximum> result;
      const AxisTaps::Run tz = depth[oz], ty = height[oy], tx = width[ox];
      for (std::int64_t rz = 0; rz < tz.count; ++rz)
        for (std::int64_t ry = 0; ry < ty.count; ++ry) {
          const float* from =
              x + plane * in +
              ((tz.first + rz * depth.step) * in_h + ty.first + ry * height.step) * in_w + tx.first;
          for (std::int64_t rx = 0; rx < tx.count; ++rx) result.take(from[rx * width.step]);
        }
      const std::int64_t at = oz * out_hw + oy * out_w + ox;
      float value = result.value;
      if constexpr (kAverage) value /= divisors[static_cast<std::size_t>(at)];
      y[plane * out + at] = canonical(value);
    }
  };
  parallel_for(g.planes() * d.out * h.out, call.threads, 16,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t row = begin; row < end; ++row) row_of_outputs(row);
               });
}

}  // namespace

std::vector<float> average_divisors(const PoolGeometry& g, const AvgPoolParams& p) {
  std::vector<float> divisors;
  const auto& [d, h, w] = g.window.axes;
  const AxisTaps depth(d), height(h), width(w);
  for (std::int64_t z = 0; z < d.out; ++z)
    for (std::int64_t y = 0; y < h.out; ++y)
      for (std::int64_t x = 0; x < w.out; ++x)
        // As the definition takes it: from a double.
        divisors.push_back(static_cast<float>(static_cast<double>(
            p.divisor_override != 0
                ? p.divisor_override
                : taps_counted(depth[z], height[y], width[x], p.count_include_pad))));
  return divisors;
}

void run_max_pool_scalar(const KernelCall& call) { run<false>(call); }
void run_average_pool_scalar(const KernelCall& call) { run<true>(call); }

Refusal refuse_max_pool(const Problem& problem) {
  if (problem.params->as<MaxPoolParams>().indices != PoolIndices::none)
    return "does not keep the places of the maxima";
  // A maximum is not rounded: exact is seq.
  if (*problem.contract == Contract::exact_preset()) return refuse_unless_f32(problem);
  return refuse_unless_seq_f32(problem);
}

KernelRow max_pool_scalar_row() {
  return {.op = "max_pool",
          .name = "max_pool.f32.sse2",
          .contracts = "seq, exact",
          .refuse = refuse_max_pool,
          .run = run<false>};
}
KernelRow average_pool_scalar_row() {
  return {.op = "avg_pool",
          .name = "avg_pool.f32.sse2",
          .contracts = "seq",
          .refuse = refuse_unless_seq_f32,
          .run = run<true>};
}

}  // namespace etalon
