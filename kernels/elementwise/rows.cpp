#include "kernels/elementwise/rows.h"

#include <vector>

#include "kernels/elementwise/bits_rows.h"
#include "kernels/elementwise/definition.h"

namespace etalon {
namespace {

template <class F>
KernelRow floating_row(std::string_view name) {
  KernelRow row = definition_row<ElementwiseDefinition<F>>(name);
  row.refuse = [](const Problem& problem) -> Refusal {
    if (!is_floating(problem.input(0).dtype)) return "computes on floating types";
    return refuse_definition(problem);
  };
  return row;
}

}  // namespace

std::span<const KernelRow> elementwise_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all(elementwise_bits_rows().begin(), elementwise_bits_rows().end());
    for (const KernelRow& row : {
             floating_row<Add>("add.definition"),
             floating_row<Sub>("sub.definition"),
             floating_row<Mul>("mul.definition"),
             floating_row<Div>("div.definition"),
             floating_row<Mod>("mod.definition"),
             floating_row<Max>("max.definition"),
             floating_row<Min>("min.definition"),
             floating_row<SumOfOperands>("sum.definition"),
             floating_row<MeanOfOperands>("mean.definition"),
             floating_row<Clip>("clip.definition"),
         })
      all.push_back(row);
#ifdef ETALON_HAVE_REAL
    all.push_back(floating_row<Pow>("pow.definition"));
#endif
    return all;
  }();
  return rows;
}

}  // namespace etalon
