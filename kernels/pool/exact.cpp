// avg_pool and global_avg_pool on f32, contract exact: kernels/reduce/exact.h says how.
#include "kernels/reduce/exact.h"

#include "engine/core/threads.h"
#include "kernels/gemm/refuse.h"
#include "kernels/pool/axis_taps.h"
#include "kernels/pool/definition.h"
#include "kernels/pool/fast.h"

namespace etalon {
namespace {

template <bool Global>
void run(const KernelCall& call) {
  using D = AvgPoolDefinition<Global>;
  if (call.output(0).numel() == 0) return;
  const auto plan = D::plan(call);
  const auto& [d, h, w] = plan.g.window.axes;
  const float* x = call.input(0).template data<float>().data();
  float* y = call.output(0).template mutable_data<float>().data();
  double* truth = nullptr;
  if (!call.truth.empty() && call.truth[0])
    truth = reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[0].bytes().data()));
  const AxisTaps depth(d), height(h), width(w);
  const std::int64_t outputs = D::slices(plan);
  exact_counts().outputs.fetch_add(outputs, std::memory_order_relaxed);
  parallel_for(outputs, call.threads, 64, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const PoolPoint o = pool_point(plan.g, i);
      const AxisTaps::Run &z = depth[o.z], &v = height[o.y], &u = width[o.x];
      BoundedSum s;
      const bool whole = u.count == w.in && w.dilation == 1 && v.count == h.in && h.dilation == 1;
      for (std::int64_t rz = 0; rz < z.count; ++rz) {
        const float* plane = x + (o.plane * d.in + z.first + rz * d.dilation) * h.in * w.in;
        if (whole) {
          add_terms(s, h.in * w.in, [&](std::int64_t k) { return static_cast<double>(plane[k]); });
          continue;
        }
        for (std::int64_t ry = 0; ry < v.count; ++ry) {
          const float* from = plane + (v.first + ry * h.dilation) * w.in + u.first;
          if (u.count >= 16) {
            add_terms(s, u.count,
                      [&](std::int64_t k) { return static_cast<double>(from[k * w.dilation]); });
            continue;
          }
          // Short runs: one chain, each term as a block of its own.
          for (std::int64_t k = 0; k < u.count; ++k) {
            const auto term = static_cast<double>(from[k * w.dilation]);
            s.sum += term;
            s.size += std::abs(term);
          }
          s.blocks += u.count;
        }
      }
      const std::int64_t counted = plan.divisor_override != 0
                                       ? plan.divisor_override
                                       : taps_counted(z, v, u, plan.count_include_pad);
      if (decide_sum(s, ExactFinish::mean, static_cast<double>(counted), y[i],
                     truth == nullptr ? nullptr : truth + i))
        continue;
      exact_counts().undecided.fetch_add(1, std::memory_order_relaxed);
      correctly_rounded_slice<D>(call, plan, i);
    }
  });
}

Refusal refuse_exact_pool(const Problem& problem) {
  if (const Refusal why = refuse_unless_exact_f32(problem)) return why;
  return refuse_too_many_terms(problem);
}

}  // namespace

KernelRow average_pool_exact_row() {
  return {.op = "avg_pool",
          .name = "avg_pool.exact",
          .contracts = "exact",
          .refuse = refuse_exact_pool,
          .run = run<false>};
}
KernelRow global_average_pool_exact_row() {
  return {.op = "global_avg_pool",
          .name = "global_avg_pool.exact",
          .contracts = "exact",
          .refuse = refuse_exact_pool,
          .run = run<true>};
}

void run_max_pool_definition(const KernelCall& call) {
  run_definition<MaxPoolDefinition<false>>(call);
}
void run_global_max_pool_definition(const KernelCall& call) {
  run_definition<MaxPoolDefinition<true>>(call);
}

}  // namespace etalon
