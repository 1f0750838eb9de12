// General matrix product, as BLAS and ONNX Gemm mean it:
//
//   y[m,n] = alpha * s[m,n] + beta * c[m,n],   s[m,n] = sum over k of a[m,k] * b[k,n]
//
// a is [M,K], or [K,M] with trans_a; b is [K,N], or [N,K] with trans_b; c broadcasts to [M,N] or is
// absent. The sum starts at +0 and follows the contract's order over k. Then t = round(alpha * s),
// and y = fma(beta, c, t): with alpha = beta = 1, t = s and y is one addition. NaN results are
// canonical. Source: Dongarra et al., "A set of level 3 basic linear algebra subprograms" (TOMS 16,
// 1990); ONNX Gemm-13.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct GemmParams {
  float alpha = 1.0F;
  float beta = 1.0F;
  bool trans_a = false;
  bool trans_b = false;
  template <class V>
  void visit(V& v) {
    v("alpha", alpha);
    v("beta", beta);
    v("trans_a", trans_a);
    v("trans_b", trans_b);
  }
};

struct GemmGeometry {
  std::int64_t m, n, k;
  std::int64_t a_row, a_col, b_row, b_col;  // element strides: a[m,k] = a[m*a_row + k*a_col]
};

GemmGeometry gemm_geometry(const GemmParams& params, const Shape& a, const Shape& b);

const OpRow& gemm_op();

}  // namespace etalon
