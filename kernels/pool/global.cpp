#include "kernels/pool/global.h"

#include <algorithm>
#include <array>

#include "engine/core/threads.h"
#include "engine/numerics/fp.h"
#include "engine/ops/pool.h"
#include "kernels/gemm/refuse.h"
#include "kernels/pool/fast.h"
#include "kernels/reduce/f32_steps.h"
#include "kernels/reduce/rows.h"

namespace etalon {
namespace {

template <Step step>
void run(const KernelCall& call) {
  if (step == Step::max && !call.truth.empty()) return run_global_max_pool_definition(call);
  const PoolGeometry g = global_pool_geometry(call.input(0).shape());
  const std::int64_t points = g.window.in_points();
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const StepFunctions& functions = step_functions(call.problem->isa);
  const std::int64_t grain = std::max<std::int64_t>(1, 16384 / std::max<std::int64_t>(1, points));
  parallel_for(g.planes(), call.threads, (grain + kChains - 1) / kChains * kChains,
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t i = begin; i < end; i += kChains) {
                   std::array<float, kChains> s;
                   s.fill(step == Step::max ? -__builtin_inff() : 0.0F);
                   std::array<const float*, kChains> from;
                   for (std::int64_t c = 0; c < kChains; ++c)  // spare chains repeat the last
                     from[static_cast<std::size_t>(c)] = x + std::min(i + c, end - 1) * points;
                   functions.along(step, s.data(), from.data(), points, 1);
                   for (std::int64_t c = 0; c < std::min<std::int64_t>(kChains, end - i); ++c) {
                     const float v = s[static_cast<std::size_t>(c)];
                     y[i + c] = canonical(step == Step::max ? v : v / static_cast<float>(points));
                   }
                 }
               });
}

// A maximum is not rounded: exact is seq.
Refusal refuse_global_max(const Problem& problem) {
  if (*problem.contract == Contract::exact_preset()) return refuse_unless_f32(problem);
  return refuse_unless_seq_f32(problem);
}

}  // namespace

std::span<const KernelRow> global_pool_f32_rows() {
  static const KernelRow rows[] = {
      {.op = "global_avg_pool",
       .name = "global_avg_pool.f32",
       .contracts = "seq",
       .refuse = refuse_unless_seq_f32,
       .run = run<Step::sum>},
      {.op = "global_max_pool",
       .name = "global_max_pool.f32",
       .contracts = "seq, exact",
       .refuse = refuse_global_max,
       .run = run<Step::max>},
  };
  return rows;
}

}  // namespace etalon
