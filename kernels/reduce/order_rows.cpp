#include "kernels/reduce/order_rows.h"

#include <algorithm>
#include <array>
#include <vector>

#include "engine/backend/bits_row.h"
#include "engine/backend/strided.h"
#include "engine/ops/reduce.h"
#include "kernels/gemm/order_panel.h"
#include "kernels/reduce/definition.h"

namespace etalon {
namespace {

// Axes from the last on that are one run in memory.
std::int64_t run_of(const Shape& shape, const std::array<std::int64_t, kMaxRank>& strides) {
  std::int64_t run = 1;
  for (int i = shape.rank() - 1; i >= 0; --i) {
    if (shape[i] == 1) continue;
    if (strides[static_cast<std::size_t>(i)] != run) break;
    run *= shape[i];
  }
  return run;
}

constexpr bool squares(Reduction of) { return of == Reduction::l2 || of == Reduction::sum_square; }

constexpr bool by_panels(Reduction of) {
  return of == Reduction::prod || of == Reduction::log_sum_exp;
}

template <Reduction of>
Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem, 1)) return r;
  try {
    const ReduceGeometry g =
        reduce_geometry(problem.params->as<ReduceParams>(), InferInputs(problem.inputs));
    return by_panels(of) ? refuse_order_panels(*problem.contract, g.reduced.numel())
                         : refuse_order_reduction(*problem.contract, g.reduced.numel());
  } catch (const NotConstant&) {
    return "wants axes that are constant";
  }
}

// Products from the left, and log-sum-exp as the definition has it: the largest element, or where
// it is infinite or NaN that alone.
template <Reduction of, class T>
void run_panels(const KernelCall& call, Isa isa, const ReduceGeometry& g) {
  using enum OrderEach;
  const auto first = [&](std::int64_t i) { return strided_offset(i, g.kept, g.kept_strides); };
  std::vector<std::int64_t> terms(static_cast<std::size_t>(g.reduced.numel()));
  for (std::size_t k = 0; k < terms.size(); ++k)
    terms[k] = strided_offset(static_cast<std::int64_t>(k), g.reduced, g.reduced_strides);
  const OrderPanels<T> panels(call, isa,
                              {.rows = g.kept.numel(),
                               .first = first,
                               .terms = terms,
                               .run = run_of(g.kept, g.kept_strides),
                               .term_run = run_of(g.reduced, g.reduced_strides)},
                              2);
  panels.run([&](OrderPanel<T>& p, T* vectors) {
    T *result = vectors, *largest = vectors + p.lanes;
    if constexpr (of == Reduction::prod) {
      p.product(result);
    } else {
      p.largest(largest);
      p.each(sub, p.x, p.terms(p.x), p.by_lane(largest));
      p.call(Function::exp, p.x);
      p.sum(p.x, false, result);
      p.call_row(Function::log, result);
      p.each_row(add, result, p.row(largest), p.row(result));
      for (std::int64_t lane = 0; lane < p.rows; ++lane)
        if (!is_finite(static_cast<double>(largest[lane]))) result[lane] = largest[lane];
    }
    store_order(call, panels.tiles(), p.first, result, p.rows);
  });
}

template <Isa isa, Reduction of>
void run(const KernelCall& call) {
  const std::vector<InferInput> known = known_inputs(call);
  const ReduceGeometry g = reduce_geometry(call.params<ReduceParams>(), InferInputs(known));
  if constexpr (by_panels(of)) {
    if (g.kept.numel() == 0) return;
    return with_accumulator(call.contract(), [&]<class T>(T) { run_panels<of, T>(call, isa, g); });
  }
  const auto first = [&](std::int64_t i) { return strided_offset(i, g.kept, g.kept_strides); };
  const auto term = [&](std::int64_t k) { return strided_offset(k, g.reduced, g.reduced_strides); };
  const std::int64_t k = g.reduced.numel();
  run_order_reduction(call, isa,
                      {.outputs = g.kept.numel(),
                       .k = k,
                       .first = first,
                       .term = term,
                       .run = run_of(g.kept, g.kept_strides),
                       .term_run = run_of(g.reduced, g.reduced_strides),
                       .of = squares(of)           ? OrderTerm::square
                             : of == Reduction::l1 ? OrderTerm::magnitude
                                                   : OrderTerm::value,
                       .divisor = of == Reduction::mean ? static_cast<double>(k) : -1,
                       .root = of == Reduction::l2,
                       .logarithm = of == Reduction::log_sum});
}

template <Reduction of>
Prepared prepare(const Problem& problem, int) {
  const ReduceGeometry g =
      reduce_geometry(problem.params->as<ReduceParams>(), InferInputs(problem.inputs));
  return prepare_order(*problem.contract, g.reduced.numel());
}

template <Isa isa, Reduction of>
KernelRow row(std::string_view op, std::string_view name) {
  return {.op = op,
          .name = name,
          .isa = isa,
          .contracts = kOrderContracts,
          .refuse = refuse<of>,
          .run = run<isa, of>,
          .prepare = prepare<of>};
}

}  // namespace

std::span<const KernelRow> reduce_order_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<Isa::avx512, Reduction::sum>("reduce_sum", "reduce_sum.order.avx512"),
      row<Isa::avx512, Reduction::mean>("reduce_mean", "reduce_mean.order.avx512"),
      row<Isa::avx512, Reduction::l1>("reduce_l1", "reduce_l1.order.avx512"),
      row<Isa::avx512, Reduction::l2>("reduce_l2", "reduce_l2.order.avx512"),
      row<Isa::avx512, Reduction::sum_square>("reduce_sum_square",
                                              "reduce_sum_square.order.avx512"),
      row<Isa::avx512, Reduction::log_sum>("reduce_log_sum", "reduce_log_sum.order.avx512"),
      row<Isa::avx512, Reduction::prod>("reduce_prod", "reduce_prod.order.avx512"),
      row<Isa::avx512, Reduction::log_sum_exp>("reduce_log_sum_exp",
                                               "reduce_log_sum_exp.order.avx512"),
      row<Isa::avx2, Reduction::sum>("reduce_sum", "reduce_sum.order.avx2"),
      row<Isa::avx2, Reduction::mean>("reduce_mean", "reduce_mean.order.avx2"),
      row<Isa::avx2, Reduction::l1>("reduce_l1", "reduce_l1.order.avx2"),
      row<Isa::avx2, Reduction::l2>("reduce_l2", "reduce_l2.order.avx2"),
      row<Isa::avx2, Reduction::sum_square>("reduce_sum_square", "reduce_sum_square.order.avx2"),
      row<Isa::avx2, Reduction::log_sum>("reduce_log_sum", "reduce_log_sum.order.avx2"),
      row<Isa::avx2, Reduction::prod>("reduce_prod", "reduce_prod.order.avx2"),
      row<Isa::avx2, Reduction::log_sum_exp>("reduce_log_sum_exp", "reduce_log_sum_exp.order.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
