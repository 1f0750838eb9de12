#include "kernels/reduce/order_rows.h"

#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/strided.h"
#include "engine/ops/reduce.h"
#include "kernels/gemm/order_reduce.h"

namespace etalon {
namespace {

enum class Of { sum, mean, magnitudes };

template <Isa isa>
Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem, 1)) return r;
  try {
    const ReduceGeometry g =
        reduce_geometry(problem.params->as<ReduceParams>(), InferInputs(problem.inputs));
    return refuse_order_reduction(*problem.contract, g.reduced.numel());
  } catch (const NotConstant&) {
    return "wants axes that are constant";
  }
}

template <Isa isa, Of of>
void run(const KernelCall& call) {
  const std::vector<InferInput> known = known_inputs(call);
  const ReduceGeometry g = reduce_geometry(call.params<ReduceParams>(), InferInputs(known));
  const auto first = [&](std::int64_t i) { return strided_offset(i, g.kept, g.kept_strides); };
  const auto term = [&](std::int64_t k) { return strided_offset(k, g.reduced, g.reduced_strides); };
  const std::int64_t k = g.reduced.numel();
  run_order_reduction(call, isa,
                      {.outputs = g.kept.numel(),
                       .k = k,
                       .first = first,
                       .term = term,
                       .absolute = of == Of::magnitudes,
                       .divisor = of == Of::mean ? static_cast<double>(k) : -1});
}

template <Isa isa, Of of>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse<isa>,
          .run = run<isa, of>};
}

}  // namespace

std::span<const KernelRow> reduce_order_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<Isa::avx512, Of::sum>("reduce_sum", "reduce_sum.order.avx512"),
      row<Isa::avx512, Of::mean>("reduce_mean", "reduce_mean.order.avx512"),
      row<Isa::avx512, Of::magnitudes>("reduce_l1", "reduce_l1.order.avx512"),
      row<Isa::avx2, Of::sum>("reduce_sum", "reduce_sum.order.avx2"),
      row<Isa::avx2, Of::mean>("reduce_mean", "reduce_mean.order.avx2"),
      row<Isa::avx2, Of::magnitudes>("reduce_l1", "reduce_l1.order.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
