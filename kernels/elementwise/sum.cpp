// sum and mean of several operands, in f32 and, of two, in f16 and bf16.
#include <vector>

#include "engine/backend/definition.h"
#include "engine/core/error.h"
#include "kernels/elementwise/broadcast_rows.h"
#include "kernels/elementwise/rows.h"
#include "kernels/gemm/order.h"
#include "kernels/gemm/refuse.h"

namespace etalon {
namespace {

// Chains start at +0 and go from the left; two terms are joined alike by every order, and once
// rounded they are their exact sum. A list or a tree must yet be one of as many terms.
Refusal refuse_terms(const Problem& problem, bool mean) {
  const Contract& c = *problem.contract;
  const bool two = problem.inputs.size() <= 2;
  if (c.exact() ? mean || !two : c.acc != DType::f32)
    return mean ? "promises acc=f32 and no exact means"
                : "promises acc=f32, and two terms of exact";
  if (c.tensor_core() || (!two && c.order.kind != OrderKind::seq && !c.exact()))
    return "promises the order seq of more than two terms";
  if (c.order.kind == OrderKind::blocks || c.order.kind == OrderKind::tree)
    return refuse_order(c.order, static_cast<std::int64_t>(problem.inputs.size()));
  return std::nullopt;
}
template <bool kMean>
Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_unless_nearest_f32(problem)) return r;
  return refuse_terms(problem, kMean);
}
// The sum is one of acc=f32, rounded to the format afterwards.
Refusal refuse_halves(const Problem& problem) {
  if (problem.inputs.size() > 2) return "sums two terms of f16 or bf16";
  if (Refusal r = refuse_unless_nearest_halves(problem)) return r;
  return refuse_terms(problem, false);
}

template <F32Row Row, bool kMean>
void run(const KernelCall& call) {
  if (!call.truth.empty()) return run_sum_definition(call);
  const std::size_t count = call.inputs.size();
  if (count == 1) {
    const Tensor zero = Tensor::of<float>({}, {0.0F});
    combine_f32(call, Row, F32Op::sum, &call.input(0), zero);
  } else {
    combine_f32(call, Row, F32Op::sum, &call.input(0), call.input(1));
  }
  for (std::size_t i = 2; i < count; ++i)
    combine_f32(call, Row, F32Op::add, nullptr, call.input(i));
  if (kMean)
    combine_f32(call, Row, F32Op::div, nullptr, Tensor::of<float>({}, {static_cast<float>(count)}));
}

template <F32Row Row, bool kMean>
KernelRow row(std::string_view name, Isa isa) {
  return {.op = kMean ? "mean" : "sum",
          .name = name,
          .isa = isa,
          .contracts = "acc=f32 in any order of two terms, seq of more; exact sums of two",
          .refuse = refuse<kMean>,
          .run = run<Row, kMean>};
}

#if defined(__x86_64__)
void run_halves(const KernelCall& call) {
  if (!call.truth.empty()) return run_sum_definition(call);
  if (call.inputs.size() == 2)
    return combine_halves(call, F32Op::sum, &call.input(0), call.input(1));
  const Tensor zero = Tensor::zeros(call.input(0).dtype(), {});
  combine_halves(call, F32Op::sum, &call.input(0), zero);
}
#endif

}  // namespace

std::span<const KernelRow> elementwise_sum_rows() {
  static const KernelRow rows[] = {
#if defined(__x86_64__)
      row<f32_row_avx512, false>("sum.f32.avx512", Isa::avx512),
      row<f32_row_avx512, true>("mean.f32.avx512", Isa::avx512),
      row<f32_row_avx2, false>("sum.f32.avx2", Isa::avx2),
      row<f32_row_avx2, true>("mean.f32.avx2", Isa::avx2),
      {.op = "sum",
       .name = "sum.half.avx2",
       .isa = Isa::avx2,
       .contracts = "acc=f32 in any order, and exact, of two terms of f16 or bf16",
       .refuse = refuse_halves,
       .run = run_halves},
#endif
      row<f32_row_base, false>("sum.f32.sse2", Isa::sse2),
      row<f32_row_base, true>("mean.f32.sse2", Isa::sse2),
  };
  return rows;
}

}  // namespace etalon
