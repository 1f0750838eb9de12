#include "kernels/activation/rows.h"

#include "kernels/activation/definition.h"
#include "kernels/activation/fast.h"

namespace etalon {

std::span<const KernelRow> activation_rows() {
  static const KernelRow rows[] = {
      relu_f32_row(),
      definition_row<ActivationDefinition<Relu>>("relu.definition"),
  };
  return rows;
}

}  // namespace etalon
