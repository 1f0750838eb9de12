// Squared norms of the rows of an operand, for the bounds of exact.h.
#pragma once

#include <cstdint>

#include "kernels/gemm/exact_lanes.h"
#include "kernels/gemm/packed.h"
#include "kernels/gemm/residue_tile.h"

namespace etalon {

// Adds the squares of terms [from, from + terms) of rows [top, top + height) to sums, height at
// most `width`, two vectors. Rows that lie side by side are walked so: one by one, each element of
// theirs would bring a cache line of its own.
inline void add_squares(const ExactLanes& lanes, const MatrixView& v, std::int64_t rows,
                        std::int64_t top, int height, std::int64_t from, std::int64_t terms,
                        int width, double* sums) {
  const float* at = v.data + top * v.row_stride + from * v.k_stride;
  if (v.k_stride == 1) {
    for (int r = 0; r < height; ++r) sums[r] += lanes.square(at + r * v.row_stride, terms);
  } else if (v.row_stride == 1 && top + width <= rows) {
    double wide[kResidueTileRows] = {};
    lanes.squares(at, v.k_stride, terms, wide);
    for (int r = 0; r < height; ++r) sums[r] += wide[r];
  } else {
    for (std::int64_t i = 0; i < terms; ++i)
      for (int r = 0; r < height; ++r) {
        const double x = static_cast<double>(at[r * v.row_stride + i * v.k_stride]);
        sums[r] += x * x;
      }
  }
}

}  // namespace etalon
