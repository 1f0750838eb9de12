#include "kernels/activation/rows.h"

#include "kernels/activation/definition.h"

namespace etalon {

std::span<const KernelRow> activation_rows() {
  static const KernelRow rows[] = {
      definition_row<ActivationDefinition<Relu>>("relu.definition"),
  };
  return rows;
}

}  // namespace etalon
