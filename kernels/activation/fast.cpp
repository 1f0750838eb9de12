#include "kernels/activation/fast.h"

#include "engine/backend/bits_row.h"
#include "engine/backend/definition.h"
#include "engine/backend/pointwise.h"
#include "engine/core/threads.h"
#include "kernels/activation/rows.h"
#include "kernels/elementwise/f32_rows.h"
#include "kernels/elementwise/steps.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

// max(+0, x), with NaN winning and a tie keeping the first: -0 and negative values become +0, every
// NaN the canonical one.
template <F32Row Row>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  constexpr float kZero = 0.0F;
  Row(F32Op::max, reinterpret_cast<float*>(output_bytes(call, 0)) + begin, &kZero,
      call.input(0).data<float>().data() + begin, count, false, true);
}

template <F32Row Row>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_activation_definition(call);
  parallel_for(
      call.input(0).numel(), call.threads, 16384,
      [&](std::int64_t begin, std::int64_t end) { run_piece<Row>(call, begin, end - begin); });
}

bool step(const KernelCall&, PointwiseStep& to) {
  to = {.kind = PointwiseStep::Kind::relu};
  return true;
}

template <F32Row Row>
KernelRow row(std::string_view name, Isa isa) {
  return {.op = "relu",
          .name = name,
          .isa = isa,
          .contracts = "all of store=f32,round=rn,subnormals=keep",
          .refuse = refuse_unless_nearest_f32,
          .run = run<Row>,
          .run_piece = run_piece<Row>,
          .step = step,
          .run_steps = run_steps_of(isa)};
}

}  // namespace

std::span<const KernelRow> relu_f32_rows() {
  static const KernelRow rows[] = {
#if defined(__x86_64__)
      row<f32_row_avx512>("relu.f32.avx512", Isa::avx512),
      row<f32_row_avx2>("relu.f32.avx2", Isa::avx2),
#endif
      row<f32_row_base>("relu.f32.sse2", Isa::sse2),
  };
  return rows;
}

}  // namespace etalon
