#include "kernels/elementwise/rows.h"

#include <vector>

#include "kernels/elementwise/bits_rows.h"
#include "kernels/elementwise/definition.h"
#include "kernels/quantize/rows.h"

namespace etalon {
namespace {

Refusal refuse_integers(const Problem& problem) {
  if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
  return refuse_definition(problem);
}

template <bool RoundedOnce>
KernelRow floating_row(std::string_view op, std::string_view name) {
  KernelRow row = definition_row<ElementwiseDefinition<RoundedOnce>>(name);
  row.op = op;
  row.refuse = refuse_integers;
  return row;
}

}  // namespace

void run_elementwise_definition(const KernelCall& call) {
  run_definition<ElementwiseDefinition<true>>(call);
}

void run_sum_definition(const KernelCall& call) {
  run_definition<ElementwiseDefinition<false>>(call);
}

std::span<const KernelRow> elementwise_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all;
    for (const auto fast : {elementwise_f32_rows(), elementwise_half_rows(), elementwise_sum_rows(),
                            elementwise_pow_rows(), narrow_cast_rows(), elementwise_bits_rows()})
      all.insert(all.end(), fast.begin(), fast.end());
    const KernelRow definitions[] = {
        floating_row<true>("add", "add.definition"),
        floating_row<true>("sub", "sub.definition"),
        floating_row<true>("mul", "mul.definition"),
        floating_row<true>("div", "div.definition"),
        floating_row<true>("pow", "pow.definition"),
        floating_row<true>("mod", "mod.definition"),
        floating_row<true>("max", "max.definition"),
        floating_row<true>("min", "min.definition"),
        floating_row<true>("clip", "clip.definition"),
        floating_row<false>("sum", "sum.definition"),
        floating_row<false>("mean", "mean.definition"),
    };
    all.insert(all.end(), std::begin(definitions), std::end(definitions));
    return all;
  }();
  return rows;
}

}  // namespace etalon
