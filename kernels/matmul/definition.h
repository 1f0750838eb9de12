// matmul: y[..., m, n] is one sum over k of a * b, in the contract's order.
#pragma once

#include "engine/backend/definition.h"
#include "engine/backend/strided.h"
#include "engine/ops/matmul.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct MatMulDefinition {
  static constexpr std::string_view op = "matmul";
  static constexpr bool rounded_once = false;

  struct Plan {
    MatMulGeometry g;
    Source a, b;
  };
  static Plan plan(const KernelCall& call) {
    return {matmul_geometry(call.input(0).shape(), call.input(1).shape()), Source(call, 0),
            Source(call, 1)};
  }
  // A slice is one output element, row-major.
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.output.numel(); }
  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const MatMulGeometry& g = p.g;
    const std::int64_t batch = i / (g.m * g.n), m = i / g.n % g.m, n = i % g.n;
    const std::int64_t ai = strided_offset(batch, g.batch, g.a_batch) + m * g.a_row;
    const std::int64_t bi = strided_offset(batch, g.batch, g.b_batch) + n * g.b_col;
    typename A::Sum sum(a, g.k);
    for (std::int64_t k = 0; k < g.k; ++k)
      sum.add_product(a.input(p.a[ai + k * g.a_col]), a.input(p.b[bi + k * g.b_row]));
    out(0, i, sum.result());
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
