#include "kernels/softmax/order_rows.h"

#include <numeric>
#include <vector>

#include "kernels/gemm/order_panel.h"
#include "kernels/softmax/definition.h"

namespace etalon {
namespace {

// The definition's steps, with the largest element rounded to acc instead of the element that is
// the largest before: the same number, rounding being monotone, but for the sign of a zero. That
// changes no exponential; the difference of a zero from it is a zero, from which the logarithm of a
// sum takes 0 only where no other element is near, that one alone among zeros. A row whose largest
// element is infinite or NaN in acc is left to the definition.
template <bool kLog, class T>
void normalize(const KernelCall& call, Isa isa, const SoftmaxGeometry& g) {
  using enum OrderEach;
  const auto first = [&](std::int64_t row) { return g.first(row); };
  std::vector<std::int64_t> terms(static_cast<std::size_t>(g.length));
  for (std::size_t k = 0; k < terms.size(); ++k) terms[k] = static_cast<std::int64_t>(k) * g.stride;
  const OrderPanels<T> panels(call, isa,
                              {.rows = g.rows,
                               .first = first,
                               .terms = terms,
                               .run = g.stride,
                               .term_run = g.stride == 1 ? g.length : 1},
                              2);
  panels.run([&](OrderPanel<T>& p, T* vectors) {
    T *largest = vectors, *sum = vectors + p.lanes;
    p.largest(largest);
    std::vector<std::int64_t> left;
    for (std::int64_t lane = 0; lane < p.rows; ++lane)
      if (!is_finite(static_cast<double>(largest[lane]))) left.push_back(p.first + lane);
    p.each(sub, p.x, p.terms(p.x), p.by_lane(largest));
    std::vector<T> exponentials;
    T* e = p.x;
    if constexpr (kLog) {
      exponentials.assign(p.x, p.x + p.size());
      e = exponentials.data();
    }
    p.call(Function::exp, e);
    p.sum(e, false, sum);
    if constexpr (kLog) {
      p.call_row(Function::log, sum);
      p.each(sub, p.x, p.terms(p.x), p.by_lane(sum));
    } else {
      p.each(div, p.x, p.terms(p.x), p.by_lane(sum));
    }
    p.store();
    if (!left.empty()) run_definition<SoftmaxDefinition<kLog>>(call, left);
  });
}

template <bool kLog, Isa isa>
void run(const KernelCall& call) {
  const SoftmaxGeometry g = softmax_geometry(call.params<SoftmaxParams>(), call.input(0).shape());
  if (g.length == 0 || g.rows == 0) return;
  with_accumulator(call.contract(), [&]<class T>(T) { normalize<kLog, T>(call, isa, g); });
}

[[maybe_unused]] Refusal refuse(const Problem& problem) {
  if (Refusal r = refuse_order_contract(problem)) return r;
  return refuse_order_panels(
      *problem.contract,
      softmax_geometry(problem.params->as<SoftmaxParams>(), problem.input(0).shape).length);
}

template <bool kLog, Isa isa>
KernelRow row(std::string_view name) {
  return {
      .op = kLog ? "log_softmax" : "softmax",
      .name = name,
      .isa = isa,
      .contracts = kOrderContracts,
      .refuse = refuse,
      .run = run<kLog, isa>,
      .prepare = [](const Problem& problem, int) {
        return prepare_order(
            *problem.contract,
            softmax_geometry(problem.params->as<SoftmaxParams>(), problem.input(0).shape).length);
      }};
}

}  // namespace

std::span<const KernelRow> softmax_order_rows() {
  static const std::vector<KernelRow> rows = {
#if defined(__x86_64__)
      row<false, Isa::avx512>("softmax.order.avx512"),
      row<false, Isa::avx2>("softmax.order.avx2"),
      row<true, Isa::avx512>("log_softmax.order.avx512"),
      row<true, Isa::avx2>("log_softmax.order.avx2"),
#endif
  };
  return rows;
}

}  // namespace etalon
