// prelu by rows of f32, over a slope that broadcasts.
#include <algorithm>

#include "engine/backend/strided.h"
#include "kernels/activation/fast.h"
#include "kernels/activation/rows.h"
#include "kernels/elementwise/broadcast_rows.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

template <F32Row Row>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_prelu_definition(call);
  combine_f32(call, Row, F32Op::prelu, &call.input(0), call.input(1));
}

Refusal refuse_piece(const Problem& problem, std::size_t carried) {
  if (carried != 0) return "by pieces it carries x";
  if (!repetition(problem.input(1).shape, problem.input(0).shape))
    return "by pieces it takes slopes that repeat as a whole";
  return std::nullopt;
}
template <F32Row Row>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const Tensor &in = call.input(0), &slopes = call.input(1);
  const float *x = in.data<float>().data(), *slope = slopes.data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const Repetition r = repetition(slopes.shape(), in.shape()).value_or(Repetition{});
  for (std::int64_t i = begin, end = begin + count, n = 0; i < end; i += n) {
    // As many neighbours as have one slope, or successive ones.
    const std::int64_t at = i / r.inner % r.extent;
    const bool successive = r.inner == 1;
    n = std::min(end - i, successive ? r.extent - at : r.inner - i % r.inner);
    Row(F32Op::prelu, y + i, x + i, slope + at, n, true, successive);
  }
}

template <F32Row Row>
KernelRow row(std::string_view name, Isa isa) {
  return {.op = "prelu",
          .name = name,
          .isa = isa,
          .contracts = "all of store=f32,round=rn,subnormals=keep",
          .refuse = refuse_unless_nearest_f32,
          .run = run<Row>,
          .run_piece = run_piece<Row>,
          .refuse_piece = refuse_piece};
}

#if defined(__x86_64__)
void run_halves(const KernelCall& call) {
  if (!call.truth.empty()) return run_prelu_definition(call);
  combine_halves(call, F32Op::prelu, &call.input(0), call.input(1));
}
#endif

}  // namespace

std::span<const KernelRow> prelu_rows() {
  static const KernelRow rows[] = {
#if defined(__x86_64__)
      row<f32_row_avx512>("prelu.f32.avx512", Isa::avx512),
      row<f32_row_avx2>("prelu.f32.avx2", Isa::avx2),
      {.op = "prelu",
       .name = "prelu.half.avx2",
       .isa = Isa::avx2,
       .contracts = "all of round=rn,subnormals=keep",
       .refuse = refuse_unless_nearest_halves,
       .run = run_halves},
#endif
      row<f32_row_base>("prelu.f32.sse2", Isa::sse2),
  };
  return rows;
}

}  // namespace etalon
