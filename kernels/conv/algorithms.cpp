// The rows of definitions of im2col, Winograd and FFT. None of them is `exact`: that contract has
// no algorithm, so the reals are not compiled for them.
#include "kernels/conv/algorithms.h"

#include <fmt/format.h>

#include "kernels/conv/fft_definition.h"
#include "kernels/conv/im2col_definition.h"
#include "kernels/conv/winograd_definition.h"

namespace etalon {
namespace {

template <class D>
void run(const KernelCall& call, std::span<const std::int64_t> listed = {}) {
  const auto plan = D::plan(call);
  const bool all = listed.data() == nullptr;
  const std::int64_t slices = all ? D::slices(plan) : static_cast<std::int64_t>(listed.size());
  run_contract<D>(call, plan, slices,
                  [&](std::int64_t i) { return all ? i : listed[static_cast<std::size_t>(i)]; });
}

template <class D>
KernelRow row(std::string_view name, Refusal (*refuse)(const Problem&)) {
  return {.op = "conv",
          .name = name,
          .contracts = "all of this algo",
          .refuse = refuse,
          .run = [](const KernelCall& call) { run<D>(call); },
          .slices = [](const KernelCall& call) { return D::slices(D::plan(call)); },
          .run_slices = run<D>,
          .bound = bound_definition<D>};
}

Refusal refuse_im2col(const Problem& problem) {
  if (problem.contract->exact()) return "order=exact has no algorithm";
  return refuse_definition(problem);
}

// Coefficients are p / q rounded once: both must be numbers of the transform's format.
Refusal refuse_winograd(const Problem& problem) {
  const Algorithm a = Algorithm::parse(problem.contract->algo);
  if (Refusal r = refuse_tiles(problem, a)) return r;
  const WinogradMatrices m = winograd_matrices(a);
  const std::int64_t most = std::int64_t{1} << (a.transform == DType::f64 ? 53 : 24);
  for (const FractionMatrix* matrix : {&m.a_t, &m.g, &m.b_t})
    for (const Fraction& f : matrix->at)
      if (f.p > most || f.p < -most || f.q > most)
        return fmt::format(
            "the coefficient {} of {} is no ratio of two numbers of {}; take other points or "
            "transform=f64",
            to_string(f), problem.contract->algo, name(a.transform));
  return refuse_definition(problem);
}

Refusal refuse_fft(const Problem& problem) {
  if (Refusal r = refuse_tiles(problem, Algorithm::parse(problem.contract->algo))) return r;
  return refuse_definition(problem);
}

}  // namespace

KernelRow im2col_definition_row() {
  return row<Im2colDefinition>("conv.im2col.definition", refuse_im2col);
}
KernelRow winograd_definition_row() {
  return row<WinogradDefinition>("conv.winograd.definition", refuse_winograd);
}
KernelRow fft_definition_row() { return row<FftDefinition>("conv.fft.definition", refuse_fft); }

}  // namespace etalon
