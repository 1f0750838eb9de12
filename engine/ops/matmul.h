// Batched matrix product, as NumPy's matmul and ONNX MatMul mean it:
//
//   y[..., m, n] = sum over k of a[..., m, k] * b[..., k, n]
//
// The leading axes broadcast. A one-dimensional a is a row (its axis vanishes from y), a
// one-dimensional b a column; two of them give a scalar. The sum starts at +0 and follows the
// contract's order over k; K = 0 gives +0. NaN results are canonical. Integers wrap modulo 2^bits.
// Errors: different element types, different K, batch axes that do not broadcast, a scalar operand.
// Source: NumPy manual, numpy.matmul; ONNX MatMul-13.
#pragma once

#include "engine/ops/op.h"

namespace etalon {

struct MatMulGeometry {
  std::int64_t m, n, k;
  std::int64_t a_row, a_col, b_row, b_col;  // element strides: a[m,k] = a[m*a_row + k*a_col]
  Shape batch;                              // the leading axes of y
  std::array<std::int64_t, kMaxRank> a_batch, b_batch;  // element strides along `batch`
  Shape output;
};

MatMulGeometry matmul_geometry(const Shape& a, const Shape& b);

const OpRow& matmul_op();

}  // namespace etalon
