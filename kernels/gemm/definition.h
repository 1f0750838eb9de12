// gemm: y[m,n] = fma(beta, c, round(alpha * s)), s the sum over k of a * b. With alpha = 1 the
// first rounding changes nothing, and with beta = 1 the last is one addition.
#pragma once

#include "engine/backend/definition.h"
#include "engine/ops/gemm.h"

namespace etalon {
inline namespace ETALON_ISA_NAMESPACE {

struct GemmDefinition {
  static constexpr std::string_view op = "gemm";
  static constexpr bool rounded_once = false;

  struct Plan {
    GemmGeometry g;
    float alpha, beta;
    Source a, b, c;
    std::int64_t c_row = 0, c_col = 0;
  };

  static Plan plan(const KernelCall& call) {
    const auto& params = call.params<GemmParams>();
    Plan p{gemm_geometry(params, call.input(0).shape(), call.input(1).shape()),
           params.alpha,
           params.beta,
           Source(call, 0),
           Source(call, 1),
           Source(call, 2)};
    if (p.c) {
      const auto strides = broadcast_strides(call.input(2).shape(), Shape{p.g.m, p.g.n});
      p.c_row = strides[0];
      p.c_col = strides[1];
    }
    return p;
  }

  // A slice is one output element, row-major.
  ETALON_HD static std::int64_t slices(const Plan& p) { return p.g.m * p.g.n; }

  template <class A, class Out>
  ETALON_HD static void slice(A& a, const Plan& p, std::int64_t i, Out& out) {
    const std::int64_t m = i / p.g.n, n = i % p.g.n;
    typename A::Sum sum(a, p.g.k);
    for (std::int64_t k = 0; k < p.g.k; ++k)
      sum.add_product(a.input(p.a[m * p.g.a_row + k * p.g.a_col]),
                      a.input(p.b[k * p.g.b_row + n * p.g.b_col]));
    typename A::V y = sum.result();
    if (p.alpha != 1.0F) y = a.mul(a.constant(static_cast<double>(p.alpha)), y);
    if (p.c)
      y = a.fma(a.constant(static_cast<double>(p.beta)), a.input(p.c[m * p.c_row + n * p.c_col]),
                y);
    out(0, i, y);
  }
};

}  // namespace ETALON_ISA_NAMESPACE
}  // namespace etalon
