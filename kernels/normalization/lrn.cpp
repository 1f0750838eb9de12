#include "kernels/normalization/lrn.h"

#include <algorithm>

#include "engine/core/threads.h"
#include "engine/ops/normalization.h"
#include "kernels/gemm/refuse.h"
#include "kernels/normalization/definition.h"

namespace etalon {
namespace {

float power(float base) {
  static const Contract seq = Contract::seq();
  ContractArithmetic<NativeF32Ops> a(seq);
  return static_cast<float>(a.pow(a.input(static_cast<double>(base)), a.constant(0.75)));
}

template <Isa isa>
void run(const KernelCall& call) {
  constexpr auto kLrn = isa >= Isa::avx512 ? avx512::lrn : avx2::lrn;
  const auto& p = call.params<LrnParams>();
  const LrnDefinition::Plan plan = LrnDefinition::plan(call);
  if (plan.count == 0) return;
  const std::int64_t channels = plan.channels, inner = plan.inner;
  const std::int64_t blocks = (inner + kLrnPixels - 1) / kLrnPixels;
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  parallel_for(
      call.input(0).shape()[0] * blocks, call.threads, 1,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t item = begin; item < end; ++item) {
          const std::int64_t pixel = item % blocks * kLrnPixels;
          for (std::int64_t c = 0; c < channels;) {
            // Channels whose windows lie inside are alike.
            const bool inside = c >= plan.below && c + kLrnChannels - 1 + plan.above < channels;
            const std::int64_t at = (item / blocks * channels + c) * inner + pixel;
            const std::int64_t together = inside ? kLrnChannels : 1;
            const bool more = c + 2 * kLrnChannels + plan.above <= channels;
            kLrn({.x = x + at,
                  .y = y + at,
                  .n = std::min(kLrnPixels, inner - pixel),
                  .first = std::max(-plan.below, -c),
                  .last = std::min(plan.above, channels - 1 - c),
                  .step = inner,
                  .channels = together,
                  .next_x = more ? (kLrnChannels + plan.above) * inner : 0,
                  .next_y = more ? kLrnChannels * inner : 0,
                  .factor = p.alpha_divided ? p.alpha / static_cast<float>(p.size) : p.alpha,
                  .bias = p.bias,
                  .power = power});
            c += together;
          }
        }
      });
}

Refusal refuse(const Problem& problem) {
  if (problem.params->as<LrnParams>().beta != 0.75F) return "takes beta=0.75";
  return refuse_unless_seq_f32(problem);
}

}  // namespace

template <Isa isa>
KernelRow lrn_f32_row(std::string_view name) {
  return {
      .op = "lrn", .name = name, .isa = isa, .contracts = "seq", .refuse = refuse, .run = run<isa>};
}
template KernelRow lrn_f32_row<Isa::avx512>(std::string_view name);
template KernelRow lrn_f32_row<Isa::avx2>(std::string_view name);

}  // namespace etalon
