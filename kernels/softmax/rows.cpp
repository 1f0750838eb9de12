#include "kernels/softmax/rows.h"

#include "kernels/softmax/definition.h"

namespace etalon {

std::span<const KernelRow> softmax_rows() {
  static const KernelRow rows[] = {
      definition_row<SoftmaxDefinition<false>>("softmax.definition"),
      definition_row<SoftmaxDefinition<true>>("log_softmax.definition"),
      definition_row<HardmaxDefinition>("hardmax.definition"),
  };
  return rows;
}

}  // namespace etalon
