#include "kernels/conv/rows.h"

#include "kernels/conv/definition.h"

namespace etalon {

std::span<const KernelRow> conv_rows() {
  static const KernelRow rows[] = {
      definition_row<ConvDefinition>("conv.definition"),
  };
  return rows;
}

}  // namespace etalon
