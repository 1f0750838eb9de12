// gemm, f32, contract seq, on raw matrices: the kernel behind the gemm rows, and what a batched
// product calls once per matrix.
#pragma once

#include <memory>

#include "engine/backend/kernel.h"
#include "engine/backend/pointwise.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/scratch.h"

namespace etalon {

struct GemmTask {
  std::int64_t m = 0, n = 0, k = 0;
  MatrixView a;                     // rows are m
  MatrixView b;                     // rows are n: b[n * row_stride + k * k_stride]
  const float* packed_b = nullptr;  // strips of b, when it is constant
  bool resume = false;              // the chains go on from what y holds
  bool backwards = false;           // columns from the last on; of a packed b
  float alpha = 1.0F, beta = 1.0F;
  const float* c = nullptr;  // c[m * c_row + n * c_col], strides 0 where broadcast
  std::int64_t c_row = 0, c_col = 0;
  float* y = nullptr;                  // [m, n]
  const Finished* finished = nullptr;  // as KernelCall::finished, where nothing ends the sums
  // What the sums end with, in registers: normalisation of columns, an operand laid out as y, ReLU.
  // For m > 1 and rows of a along k, and not with alpha, beta or c other than a bias by column.
  const UsualSteps* ending = nullptr;
};

void gemm_f32(const TileSet& set, const GemmTask& task, int threads);

// The row on the tiles of one instruction set.
template <Isa isa>
KernelRow gemm_f32_row(std::string_view name);

}  // namespace etalon
