#include "kernels/reduce/exact.h"

#include "engine/backend/strided.h"
#include "engine/core/threads.h"
#include "kernels/gemm/refuse.h"
#include "kernels/reduce/definition.h"

namespace etalon {

void run_reduce_exact(const KernelCall& call, const ExactSteps& steps) {
  using D = ReduceDefinition<false>;
  const D::Plan plan = D::plan(call);
  const bool square = plan.kind == Reduction::l2 || plan.kind == Reduction::sum_square;
  const bool magnitude = plan.kind == Reduction::l1;
  const ExactFinish finish = plan.kind == Reduction::mean ? ExactFinish::mean
                             : plan.kind == Reduction::l2 ? ExactFinish::root
                                                          : ExactFinish::sum;
  // Runs of terms that lie `stride` apart.
  StridedLoop<1> terms;
  for (int i = 0; i < plan.g.reduced.rank(); ++i)
    terms.add_axis(plan.g.reduced[i], {plan.g.reduced_strides[static_cast<std::size_t>(i)]});
  const std::int64_t run = terms.row(), stride = terms.rank() == 0 ? 1 : terms.step()[0];
  std::vector<std::int64_t> starts;
  if (plan.count() > 0)
    terms.run(
        1, [&](const std::array<std::int64_t, 1>& at, std::int64_t) { starts.push_back(at[0]); });
  const float* x = call.input(0).data<float>().data();
  float* y = call.output(0).mutable_data<float>().data();
  double* truth = nullptr;
  if (!call.truth.empty() && call.truth[0])
    truth = reinterpret_cast<double*>(const_cast<std::byte*>(call.truth[0].bytes().data()));
  const auto count = static_cast<double>(plan.count());
  const std::int64_t outputs = D::slices(plan);
  exact_counts().outputs.fetch_add(outputs, std::memory_order_relaxed);
  const std::int64_t grain =
      std::max<std::int64_t>(1, 4096 / std::max<std::int64_t>(1, plan.count()));
  parallel_for(outputs, call.threads, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const float* from = x + strided_offset(i, plan.g.kept, plan.g.kept_strides);
      BoundedSum s;
      for (const std::int64_t start : starts) {
        const float* first = from + start;
        const auto term = [&](std::int64_t k) { return static_cast<double>(first[k * stride]); };
        if (square)
          add_terms(s, run, [&](std::int64_t k) { return term(k) * term(k); });
        else if (magnitude)
          add_terms(s, run, [&](std::int64_t k) { return std::abs(term(k)); });
        else
          add_terms(s, run, term);
      }
      const auto value = [&] {
        return static_cast<float>(finish == ExactFinish::mean   ? s.sum / count
                                  : finish == ExactFinish::root ? std::sqrt(s.sum)
                                                                : s.sum);
      };
      if (!steps.rounding_test) {
        y[i] = value();
        continue;
      }
      if (decide_sum(s, finish, count, y[i], truth == nullptr ? nullptr : truth + i)) continue;
      exact_counts().undecided.fetch_add(1, std::memory_order_relaxed);
      if (steps.definition)
        correctly_rounded_slice<D>(call, plan, i);
      else
        y[i] = value();
    }
  });
}

namespace {

Refusal refuse(const Problem& problem) {
  if (problem.input(0).dtype != DType::f32) return "computes on f32";
  if (*problem.contract != Contract::exact_preset()) return "promises exact only";
  return refuse_too_many_terms(problem);
}

}  // namespace

const std::vector<KernelRow>& reduce_exact_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    constexpr std::string_view kNames[][2] = {{"reduce_sum", "reduce_sum.exact"},
                                              {"reduce_mean", "reduce_mean.exact"},
                                              {"reduce_l1", "reduce_l1.exact"},
                                              {"reduce_l2", "reduce_l2.exact"},
                                              {"reduce_sum_square", "reduce_sum_square.exact"}};
    for (const auto& [op, name] : kNames)
      all.push_back({.op = op,
                     .name = name,
                     .contracts = "exact",
                     .refuse = refuse,
                     .run = [](const KernelCall& call) { run_reduce_exact(call, {}); }});
    return all;
  }();
  return rows;
}

}  // namespace etalon
