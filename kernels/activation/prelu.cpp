// prelu by rows of f32, over a slope that broadcasts.
#include <algorithm>

#include "engine/backend/definition.h"
#include "kernels/activation/fast.h"
#include "kernels/activation/rows.h"
#include "kernels/elementwise/broadcast_rows.h"

namespace etalon {
namespace {

template <F32Row Row>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_prelu_definition(call);
  combine_f32(call, Row, F32Op::prelu, &call.input(0), call.input(1));
}

// A slope for all, for each element, or for each channel: along one axis.
struct Slopes {
  std::int64_t channels = 1, inner = 1;
  explicit Slopes(const Problem& problem) {
    const Shape &slope = problem.input(1).shape, &x = problem.input(0).shape;
    channels = slope.numel();
    if (channels == 1) inner = x.numel();
    if (channels == 1 || slope == x) return;
    for (int axis = x.rank() - 1, s = slope.rank() - 1; s >= 0 && slope[s] == 1; --axis, --s)
      inner *= x[axis];
  }
};
Refusal refuse_piece(const Problem& problem, std::size_t carried) {
  if (carried != 0) return "by pieces it carries x";
  const Shape &slope = problem.input(1).shape, &x = problem.input(0).shape;
  if (slope == x) return std::nullopt;
  int varying = 0;
  for (int s = 0; s < slope.rank(); ++s) varying += slope[s] != 1 ? 1 : 0;
  if (varying > 1) return "by pieces it takes slopes along one axis";
  return std::nullopt;
}
template <F32Row Row>
void run_piece(const KernelCall& call, std::int64_t begin, std::int64_t count) {
  const float *x = call.input(0).data<float>().data(), *slope = call.input(1).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  const Slopes s(*call.problem);
  for (std::int64_t i = begin, end = begin + count, n = 0; i < end; i += n) {
    const std::int64_t c = i / s.inner % s.channels;
    // Of neighbours, as many as are of one channel, or of successive ones.
    const bool successive = s.inner == 1;
    n = std::min(end - i, successive ? s.channels - c : s.inner - i % s.inner);
    Row(F32Op::prelu, y + i, x + i, slope + c, n, true, successive);
  }
}

template <F32Row Row>
KernelRow row(std::string_view name, Isa isa) {
  return {.op = "prelu",
          .name = name,
          .isa = isa,
          .contracts = "all of store=f32,round=rn,subnormals=keep",
          .refuse = refuse_but_f32,
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
       .refuse = refuse_but_halves,
       .run = run_halves},
#endif
      row<f32_row_base>("prelu.f32.sse2", Isa::sse2),
  };
  return rows;
}

}  // namespace etalon
