#include "kernels/softmax/rows.h"

#include <vector>

#include "kernels/softmax/definition.h"
#include "kernels/softmax/order_rows.h"

namespace etalon {

std::span<const KernelRow> softmax_rows() {
  static const std::vector<KernelRow> rows = [] {
    std::vector<KernelRow> all(softmax_order_rows().begin(), softmax_order_rows().end());
    all.push_back(definition_row<SoftmaxDefinition<false>>("softmax.definition"));
    all.push_back(definition_row<SoftmaxDefinition<true>>("log_softmax.definition"));
    all.push_back(definition_row<HardmaxDefinition>("hardmax.definition"));
    return all;
  }();
  return rows;
}

}  // namespace etalon
