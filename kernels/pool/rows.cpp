#include "kernels/pool/rows.h"

#include "kernels/pool/definition.h"

namespace etalon {

std::span<const KernelRow> pool_rows() {
  static const KernelRow rows[] = {
      definition_row<MaxPoolDefinition<false>>("max_pool.definition"),
      definition_row<MaxPoolDefinition<true>>("global_max_pool.definition"),
      definition_row<AvgPoolDefinition<false>>("avg_pool.definition"),
      definition_row<AvgPoolDefinition<true>>("global_avg_pool.definition"),
  };
  return rows;
}

}  // namespace etalon
